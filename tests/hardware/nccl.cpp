#include <string>
#include <vector>

#include <nccl.h>

#include <lockstep/cuda/interop.hpp>

#include "measure.hpp"

namespace lockstep::hardware {
namespace {

constexpr DType kDTypes[] = {DType::f32,    DType::f64, DType::f16, DType::bf16, DType::f8e4m3,
                             DType::f8e5m2, DType::i8,  DType::i16, DType::i32,  DType::i64,
                             DType::u8,     DType::u16, DType::u32, DType::u64};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::mean};

// Of one rank, whose reduction is its own value, at an aligned address and behind it.
std::string all_reduce_every_case(Communicator& communicator, const Stream& stream) {
  int wrong = 0, tried = 0;
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::mean && !is_floating(dtype)) continue;
      for (const std::int64_t first : {0, 1}) {
        const Tensor in = Tensor::full({1001}, 3.0f, DType::f32, kGpu).cast(dtype).slice(first, 1001);
        const Tensor out = Tensor::zeros({1001}, dtype, kGpu).slice(first, 1001);
        const std::vector<TensorView> from{in.view()}, to{out.view()};
        communicator.all_reduce(op, from, to, std::vector<StreamRef>{stream});
        const std::vector<float> expected(static_cast<std::size_t>(1001 - first), 3.0f);
        ++tried;
        wrong += out.cast(DType::f32).to_vector<float>() == expected ? 0 : 1;
      }
    }
  }
  return wrong == 0 ? "ok" : "WRONG: " + std::to_string(wrong) + " of " + std::to_string(tried);
}

}  // namespace

// The communicator on NVIDIA's library, with one rank that an engine made.
void nccl(Section& section) {
  int version = 0;
  ncclGetVersion(&version);
  section.finding("version", std::to_string(version));
  ncclComm_t native = nullptr;
  if (ncclCommInitAll(&native, 1, nullptr) != ncclSuccess) {
    section.finding("ncclCommInitAll", std::string("FAILED: ") + ncclGetLastError(nullptr));
    return;
  }
  {
    Communicator communicator = Communicator::adopt({&native, 1});
    const Stream stream(kGpu);
    const StreamScope scope(stream);
    section.finding("all_reduce of every dtype, operator and alignment",
                    all_reduce_every_case(communicator, stream));
    const Tensor pair = Tensor::ones({2}, DType::f32, kGpu);
    const std::vector<TensorView> views{pair.view()};
    const std::vector<StreamRef> streams{stream};
    const auto wait = [&] { stream.synchronize(); };
    const auto raw = [&] {
      ncclAllReduce(pair.view().data, pair.view().data, 2, ncclFloat, ncclSum, native,
                    cuda::native_stream(stream));
    };
    section.host_time("ncclAllReduce of 8 bytes", raw, wait);
    section.host_time(
        "Communicator::all_reduce of 8 bytes",
        [&] { communicator.all_reduce(ReduceOp::sum, views, views, streams); }, wait);
  }
  ncclCommDestroy(native);
}

}  // namespace lockstep::hardware

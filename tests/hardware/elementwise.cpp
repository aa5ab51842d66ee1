#include <functional>
#include <string>

#include "measure.hpp"

namespace lockstep::hardware {
namespace {

void of(Section& section, const Stream& stream, DType dtype) {
  const double bytes = static_cast<double>(section.bytes());
  const std::int64_t size = section.bytes() / static_cast<std::int64_t>(size_of(dtype)), rows = size / 1024;
  const auto time = [&](const char* what, double tensors_moved, const std::function<void(int)>& call,
                        int calls = 10) {
    section.device_time(std::string(what) + " " + std::string(name(dtype)), stream, tensors_moved * bytes,
                        call, calls);
  };
  Tensor a = Tensor::ones({size}, dtype, kGpu);
  const Tensor b = Tensor::ones({size}, dtype, kGpu);
  time("add_", 3, [&](int) { a.add_(b); });
  time("a + b, which allocates", 3, [&](int) { static_cast<void>(a + b); });
  time("exp", 2, [&](int) { static_cast<void>(exp(b)); });
  time("fill_", 1, [&](int) { a.fill_(1); });

  const Tensor matrix = b.reshape({rows, 1024}), row = Tensor::ones({1024}, dtype, kGpu);
  const Tensor labels = Tensor::zeros({rows}, DType::i64, kGpu);
  time("add_row", 2, [&](int) { static_cast<void>(add_row(matrix, row)); });
  time(
      "a copy of half the columns", 1, [&](int) { static_cast<void>(matrix.narrow(1, 0, 512).contiguous()); },
      3);
  time(
      "argmax of rows", 1, [&](int) { static_cast<void>(argmax(matrix, 1)); }, 3);
  time(
      "in_top_k of rows", 1, [&](int) { static_cast<void>(in_top_k(matrix, labels, 5)); }, 3);
  time(
      "softmax_cross_entropy of rows", 2,
      [&](int) { static_cast<void>(softmax_cross_entropy(matrix, labels)); }, 3);
  const std::int64_t few = size / 64;  // long columns: slow while each has one thread
  const Tensor ten_columns = b.slice(0, few / 10 * 10).reshape({few / 10, 10});
  time(
      "argmax of 10 columns", 1.0 / 64, [&](int) { static_cast<void>(argmax(ten_columns, 0)); }, 1);

  Tensor variable = Tensor::ones({size}, dtype, kGpu), first = Tensor::zeros({size}, dtype, kGpu),
         second = Tensor::zeros({size}, dtype, kGpu);
  time("adam_update_", 7, [&](int step) { adam_update_(variable, b, first, second, step + 1); });
  time("sgd_update_ with momentum", 5, [&](int) { sgd_update_(variable, b, first, {.momentum = 0.9}); });
}

}  // namespace

void elementwise(Section& section) {
  const Stream stream(kGpu);
  const StreamScope scope(stream);
  of(section, stream, DType::f32);
  of(section, stream, DType::bf16);
  const std::int64_t bytes = section.bytes();
  const Tensor floats = Tensor::ones({bytes / 4}, DType::f32, kGpu);
  for (const DType to : {DType::bf16, DType::f8e4m3}) {
    const double moved = static_cast<double>(bytes + bytes / 4 * static_cast<std::int64_t>(size_of(to)));
    section.device_time("cast of float32 to " + std::string(name(to)), stream, moved,
                        [&](int) { static_cast<void>(floats.cast(to)); });
  }
}

}  // namespace lockstep::hardware

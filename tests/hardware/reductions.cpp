#include <string>

#include <lockstep/cuda/interop.hpp>

#include "measure.hpp"
#include "reference.hpp"

namespace lockstep::hardware {

// CUB's, to compare with lockstep_bench axis_reduce.
void reductions(Section& section) {
  const Stream stream(kGpu);
  const StreamScope scope(stream);
  const std::int64_t size = section.bytes() / static_cast<std::int64_t>(sizeof(float));
  const Tensor in = Tensor::ones({size}, DType::f32, kGpu);
  const Tensor out = Tensor::zeros({size}, DType::f32, kGpu);
  const Tensor scratch = Tensor::zeros({static_cast<std::int64_t>(kScratchBytes)}, DType::u8, kGpu);
  const auto* const from = static_cast<const float*>(in.view().data);
  auto* const to = static_cast<float*>(out.view().data);
  void* const workspace = scratch.view().data;
  const cudaStream_t native = cuda::native_stream(stream);
  const double bytes = static_cast<double>(section.bytes());
  section.device_time("CUB: all to one", stream, bytes,
                      [&](int) { cub_sum(to, from, size, workspace, native); });
  for (const std::int64_t columns : {64, 1024, 65536}) {
    if (columns > size) continue;
    section.device_time("CUB: rows of " + std::to_string(columns), stream, bytes,
                        [&](int) { cub_sum_rows(to, from, size / columns, columns, workspace, native); });
  }
}

}  // namespace lockstep::hardware

#include <cstdint>

#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {

void HostKernels::in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels,
                           std::int64_t k, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  auto* const results = static_cast<bool*>(out.data);
  const auto* const label = static_cast<const std::int64_t*>(labels.data);
  const std::int64_t columns = logits.shape[1];
  dispatch_arithmetic("in_top_k", logits, [&]<class C>() {
    TileReader<C> reader(logits);
    for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
      results[r] = false;
      if (label[r] < 0 || label[r] >= columns) continue;
      const C own = *reader.read(r * columns + label[r], 1);
      if (own != own) continue;
      std::int64_t num_greater = 0;
      for_each_tile(columns, true, [&](std::int64_t begin, std::int64_t n) {
        const C* const x = reader.read(r * columns + begin, n);
        for (std::int64_t i = 0; i < n; ++i) num_greater += !(x[i] <= own);
      });
      results[r] = num_greater < k;
    }
  });
}

}  // namespace lockstep::host

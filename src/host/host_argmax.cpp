#include <algorithm>
#include <cstdint>

#include "arithmetic/operators.hpp"
#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

template <class C>
std::int64_t argmax_of_run(TileReader<C>& reader, std::int64_t start, std::int64_t length) {
  C best = *reader.read(start, 1);
  std::int64_t index = 0;
  for_each_tile(length, reader.converts(), [&](std::int64_t begin, std::int64_t n) {
    const C* const x = reader.read(start + begin, n);
    for (std::int64_t i = 0; i < n; ++i) {
      if (arithmetic::is_larger(x[i], best)) {
        best = x[i];
        index = begin + i;
      }
    }
  });
  return index;
}

template <class C>
void argmax_of_columns(TileReader<C>& reader, std::int64_t start, const backend::AxisExtents& extents,
                       std::int64_t* out) {
  C best[kTile];
  for_each_tile(extents.inner, true, [&](std::int64_t column, std::int64_t n) {
    for (std::int64_t row = 0; row < extents.axis; ++row) {
      const C* const x = reader.read(start + row * extents.inner + column, n);
      for (std::int64_t i = 0; i < n; ++i) {
        if (row == 0 || arithmetic::is_larger(x[i], best[i])) {
          best[i] = x[i];
          out[column + i] = row;
        }
      }
    }
  });
}

}  // namespace

void HostKernels::argmax(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents,
                         backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  auto* const indices = static_cast<std::int64_t*>(out.data);
  const std::int64_t slab = extents.axis * extents.inner;
  dispatch_arithmetic("argmax", in, [&]<class C>() {
    TileReader<C> reader(in);
    for (std::int64_t outer = 0; outer < extents.outer; ++outer) {
      if (extents.inner == 1)
        indices[outer] = argmax_of_run(reader, outer * slab, extents.axis);
      else
        argmax_of_columns(reader, outer * slab, extents, indices + outer * extents.inner);
    }
  });
}

}  // namespace lockstep::host

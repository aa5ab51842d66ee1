#include "host/collectives/partial_reduction.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <vector>

#include "arithmetic/scaled_sum.hpp"
#include "detail/float_environment.hpp"
#include "host/collectives/reduce_range.hpp"
#include "host/host_convert.hpp"

namespace lockstep::host {
namespace {

// What several sources' converted elements take stays in the second-level cache.
constexpr std::int64_t kBlock = 4096;

bool is_narrow(DType dtype) { return partial_dtype(dtype) != dtype; }

// @return whether all were finite.
template <std::floating_point A>
bool divide(A* values, std::int64_t count, A divisor) {
  bool all_finite = true;
  for (std::int64_t i = 0; i < count; ++i) {
    all_finite &= arithmetic::is_finite(values[i]);
    values[i] /= divisor;
  }
  return all_finite;
}

bool divide(DType dtype, void* values, std::int64_t count, int divisor) {
  const detail::FloatEnvironment environment;
  if (dtype == DType::f64) return divide(static_cast<double*>(values), count, static_cast<double>(divisor));
  return divide(static_cast<float*>(values), count, static_cast<float>(divisor));
}

}  // namespace

DType partial_dtype(DType dtype) {
  return is_floating(dtype) && size_of(dtype) < size_of(DType::f32) ? DType::f32 : dtype;
}

void reduce_partially(ReduceOp op, DType dtype, std::int64_t count, bool is_first,
                      std::span<const void* const> sources, void* partial) {
  const ReduceOp step = op == ReduceOp::mean ? ReduceOp::sum : op;
  std::vector<const void*> operands(sources.begin(), sources.end());
  if (!is_first) operands.insert(operands.begin(), partial);
  if (!is_narrow(dtype)) {
    reduce_range(step, dtype, count, operands, {&partial, 1}, /*streaming=*/false);
    return;
  }
  std::vector<float> widened(sources.size() * static_cast<std::size_t>(std::min(count, kBlock)));
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    float* const block = static_cast<float*>(partial) + begin;
    if (!is_first) operands.front() = block;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      float* const to = widened.data() + i * static_cast<std::size_t>(n);
      widen(static_cast<const std::byte*>(sources[i]) + begin * static_cast<std::int64_t>(size_of(dtype)),
            dtype, 1, to, n);
      operands[i + (is_first ? 0 : 1)] = to;
    }
    void* const to = block;
    reduce_range(step, DType::f32, n, operands, {&to, 1}, /*streaming=*/false);
  }
}

bool finish_reduction(ReduceOp op, DType dtype, std::int64_t count, int num_ranks, void* partial,
                      void* result) {
  if (op == ReduceOp::mean && !divide(partial_dtype(dtype), partial, count, num_ranks)) return false;
  if (is_narrow(dtype))
    narrow(static_cast<const float*>(partial), result, dtype, 1, count);
  else
    std::memcpy(result, partial, static_cast<std::size_t>(count) * size_of(dtype));
  return true;
}

}  // namespace lockstep::host

#include <array>

#include "arithmetic/dispatch_operator.hpp"
#include "kernels/combine.cuh"
#include "kernels/combine.hpp"
#include "kernels/multi/multi.hpp"
#include "kernels/multi/table.cuh"

namespace lockstep::cuda {
namespace {

/// Elements [i, i + kCount) of an item, whose arrays are first the sources, then the destinations.
template <class Op, class T, int kCount>
__device__ void combine_vector(const ArrayPart& part, int num_sources, int num_arrays, bool mean,
                               std::int64_t i) {
  using A = compute_t<T>;
  const bool aligned = part.item.aligned;
  A acc[kCount];
  Vector<T, kCount> vector = load<T, kCount>(part.arrays[0], i, aligned);
#pragma unroll
  for (int j = 0; j < kCount; ++j) acc[j] = widen(vector.elements[j]);
  // Loads that are on their way together. Sixteen sums leave registers for fewer.
  constexpr int kAtOnce = kCount == 16 ? 2 : 4;
#pragma unroll kAtOnce
  for (int k = 1; k < num_sources; ++k) {
    vector = load<T, kCount>(part.arrays[k], i, aligned);
#pragma unroll
    for (int j = 0; j < kCount; ++j) acc[j] = Op::apply(acc[j], widen(vector.elements[j]));
  }
  vector = results_of<Op, T>(acc, num_sources, mean, kCount, [&](int k, int j) {
    return widen(load<T, 1>(part.arrays[k], i + j, aligned).elements[0]);
  });
  for (int k = num_sources; k < num_arrays; ++k) store<T, kCount>(part.arrays[k], i, vector, aligned);
}

template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    combine_all_kernel(__grid_constant__ const Table table, int num_sources, bool mean) {
  const ArrayPart part = part_of_block(table);
  for_each_vector<kPer16Bytes<T>>(part, [&](std::int64_t i, auto constant) {
    combine_vector<Op, T, decltype(constant)::value>(part, num_sources, table.num_arrays, mean, i);
  });
}

}  // namespace

void combine_all(const Place& place, ReduceOp op, DType dtype, std::span<const Combination> combinations) {
  if (combinations.empty()) return;
  const auto& [count, sources, destinations] = combinations.front();
  if (combinations.size() == 1) return combine(place, op, dtype, count, sources, destinations);
  const std::size_t num_arrays = sources.size() + destinations.size();
  const auto num_sources = static_cast<int>(sources.size());
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) {
      arithmetic::dispatch_operator(op, [&]<class Op>() {
        Tables tables(num_arrays, [&](const Table& table, unsigned blocks) {
          launch(place, "Combining replicas' values", blocks, kThreads, combine_all_kernel<Op, T>, table,
                 num_sources, op == ReduceOp::mean);
        });
        std::array<const void*, 2 * kMostRanks> arrays;
        for (const Combination& one : combinations) {
          std::ranges::copy(one.destinations, std::ranges::copy(one.sources, arrays.begin()).out);
          add_arrays<T>(tables, one.count, std::span(arrays).first(num_arrays));
        }
        tables.flush();
      });
    }
  });
}

}  // namespace lockstep::cuda

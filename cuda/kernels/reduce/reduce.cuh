#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstdint>

#include "arithmetic/scaled_sum.hpp"
#include "device/temporary.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/reduce/kernels.cuh"
#include "kernels/reduce/reduce.hpp"

namespace lockstep::cuda {

template <class Op, class T>
void launch_reduction(const Place& place, const char* operation, const ReduceOutput& out, const void* in,
                      const backend::AxisExtents& extents, const ReducePlan& plan) {
  using Kind = ReducePlan::Kind;
  const auto [outer, axis, inner] = extents;
  constexpr std::int64_t kSize = sizeof(T);
  const auto* const begin = static_cast<const std::byte*>(in);
  // Parts of a row begin at multiples of 16 bytes.
  const bool aligned = are_multiples(16, in) && (outer == 1 || axis * kSize % 16 == 0);
  const ReduceInput input{{begin, begin + outer * axis * inner * kSize}, aligned};
  // Columns' vectors begin at multiples of 16 bytes, before the row and behind it where the array does not.
  const bool has_shift = !are_multiples(16, in) && are_multiples(kSize, in);
  const std::int64_t per_row = plan.kind == Kind::tiles     ? (inner + plan.width - 1) / plan.width
                               : plan.kind == Kind::columns ? inner / kPer16Bytes<T> + (has_shift ? 1 : 0)
                                                            : 1;
  const std::int64_t groups =
      plan.splits *
      (plan.kind == Kind::columns ? (outer * per_row + plan.width - 1) / plan.width : outer * per_row);
  const unsigned blocks = blocks_for((groups + plan.groups_per_block - 1) / plan.groups_per_block * kThreads);
  assert(plan.kind != Kind::columns || blocks == groups);  // as many would not fit any GPU
  const auto kernel = plan.kind == Kind::staged  ? reduce_staged<Op, T>
                      : plan.kind == Kind::rows  ? reduce_rows<Op, T>
                      : plan.kind == Kind::tiles ? reduce_tiles<Op, T>
                                                 : reduce_columns<Op, T>;
  const int threads = plan.kind == Kind::columns ? plan.group : kThreads;
  launch(place, operation, blocks, static_cast<unsigned>(threads), kernel, input, out,
         ReduceWork{extents, plan, groups, per_row});
}

template <class Op>
void reduce_by(const Place& place, const char* operation, const TensorView& out, const TensorView& in,
               const backend::AxisExtents& given, double divisor) {
  const std::int64_t size = given.outer * given.inner;
  const backend::AxisExtents extents = given.axis == 1 ? backend::AxisExtents{1, 1, size} : given;
  dispatch_arithmetic(operation, in, [&]<class T>() {
    using A = accumulator_of<Op, T>;
    const ReduceOutput output{out.data, out.dtype, divisor, are_multiples(16, out.data)};
    const ReducePlan plan = plan_reduction(extents, sizeof(T), sizeof(A), true);
    // Results that would overwrite elements that are still to be read are written by the second pass, too.
    const auto* const begin = static_cast<const std::byte*>(in.data);
    const auto* const results = static_cast<const std::byte*>(out.data);
    const bool in_place = results < begin + in.nbytes() && begin < results + out.nbytes();
    if (plan.splits == 1 && !in_place)
      return launch_reduction<Op, T>(place, operation, output, in.data, extents, plan);

    const backend::AxisExtents rest{extents.outer, plan.splits, extents.inner};
    if constexpr (std::same_as<Op, arithmetic::Sum> && std::same_as<A, float>) {
      // Parts in double hold sums of floats at any size.
      if (out.dtype == DType::f64 || (divisor != 1 && out.dtype == DType::f32)) {
        const Temporary wide(place, size * plan.splits * static_cast<std::int64_t>(sizeof(double)));
        launch_reduction<Op, T>(place, operation, {wide.data(), DType::f64, 1, true}, in.data, extents, plan);
        return launch_reduction<Op, double>(place, operation, output, wide.data(), rest,
                                            plan_reduction(rest, sizeof(double), sizeof(double), false));
      }
    }
    const Temporary partial(place, size * plan.splits * static_cast<std::int64_t>(sizeof(A)));
    // A part is divided by a power of two, so that it overflows only where the result does.
    const double scale =
        divisor == 1 || std::integral<A> ? 1 : arithmetic::sum_scale(static_cast<double>(extents.axis));
    launch_reduction<Op, T>(place, operation, {partial.data(), dtype_of<A>, scale, true}, in.data, extents,
                            plan);
    ReduceOutput rest_output = output;
    rest_output.divisor /= scale;
    launch_reduction<Op, A>(place, operation, rest_output, partial.data(), rest,
                            plan_reduction(rest, sizeof(A), sizeof(A), false));
  });
}

}  // namespace lockstep::cuda

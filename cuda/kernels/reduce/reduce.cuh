#pragma once

#include <algorithm>
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
  // The distance from one row, or slab, to the next. Parts of a row begin at multiples of 16 bytes.
  const bool is_single = outer * (plan.kind == Kind::columns ? axis : 1) == 1;
  const std::int64_t distance = is_single ? 0 : (plan.kind == Kind::columns ? inner : axis * inner) * kSize;
  const ReduceInput input{begin, begin + outer * axis * inner * kSize,
                          are_multiples(16, in) && distance % 16 == 0};
  const std::int64_t vectors = (inner + kPer16Bytes<T> - 1) / kPer16Bytes<T>;
  const std::int64_t groups =
      plan.splits * (plan.kind == Kind::columns ? (outer * vectors + plan.width - 1) / plan.width : outer);
  constexpr std::int64_t kMostBlocks = 1 << 20;
  const auto blocks = static_cast<unsigned>(
      std::min(kMostBlocks, (groups + plan.groups_per_block - 1) / plan.groups_per_block));
  launch(place, operation, blocks, static_cast<unsigned>(plan.group * plan.groups_per_block),
         plan.kind == Kind::rows ? reduce_rows<Op, T> : reduce_columns<Op, T>, input, out,
         ReduceWork{extents, plan, groups});
}

template <class Op>
void reduce_by(const Place& place, const char* operation, const TensorView& out, const TensorView& in,
               const backend::AxisExtents& given, double divisor) {
  const std::int64_t size = given.outer * given.inner;
  const backend::AxisExtents extents = given.axis == 1 ? backend::AxisExtents{1, 1, size} : given;
  dispatch_arithmetic(operation, in, [&]<class T>() {
    using A = accumulator_of<Op, T>;
    const ReduceOutput output{out.data, out.dtype, divisor, are_multiples(16, out.data)};
    const ReducePlan plan = plan_reduction(extents, sizeof(T), true);
    // Results that would overwrite elements that are still to be read are written by the second pass, too.
    const auto* const begin = static_cast<const std::byte*>(in.data);
    const auto* const results = static_cast<const std::byte*>(out.data);
    const bool in_place = (extents.axis > 1 || out.dtype != in.dtype) && results < begin + in.nbytes() &&
                          begin < results + out.nbytes();
    if (plan.splits == 1 && !in_place)
      return launch_reduction<Op, T>(place, operation, output, in.data, extents, plan);

    const backend::AxisExtents rest{extents.outer, plan.splits, extents.inner};
    if constexpr (std::same_as<Op, arithmetic::Sum> && std::same_as<A, float>) {
      // Parts in double hold sums of floats at any size.
      if (out.dtype == DType::f64 || (divisor != 1 && out.dtype == DType::f32)) {
        const Temporary wide(place, size * plan.splits * static_cast<std::int64_t>(sizeof(double)));
        launch_reduction<Op, T>(place, operation, {wide.data(), DType::f64, 1, true}, in.data, extents, plan);
        return launch_reduction<Op, double>(place, operation, output, wide.data(), rest,
                                            plan_reduction(rest, sizeof(double), false));
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
                            plan_reduction(rest, sizeof(A), false));
  });
}

}  // namespace lockstep::cuda

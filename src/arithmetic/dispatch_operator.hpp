#pragma once

#include <lockstep/reduce_op.hpp>

#include "arithmetic/operators.hpp"

namespace lockstep::arithmetic {

/// Calls `f.template operator()<Op>()` with the operator that combines values: a mean's is the sum's.
template <class F>
void dispatch_operator(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return f.template operator()<Sum>();
    case ReduceOp::product: return f.template operator()<Product>();
    case ReduceOp::min: return f.template operator()<Min>();
    case ReduceOp::max: return f.template operator()<Max>();
  }
}

}  // namespace lockstep::arithmetic

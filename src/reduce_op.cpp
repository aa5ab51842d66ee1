#include <ostream>

#include <lockstep/error.hpp>
#include <lockstep/reduce_op.hpp>

#include "ascii.hpp"
#include "detail/expects.hpp"

namespace lockstep {
namespace {

constexpr ReduceOp kReduceOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max,
                                   ReduceOp::product};

}  // namespace

std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: break;
  }
  return "product";
}

ReduceOp parse_reduce_op(std::string_view text) {
  for (const ReduceOp op : kReduceOps) {
    if (equals_ignoring_case(text, name(op))) return op;
  }
  LOCKSTEP_EXPECTS(false, InvalidArgument, "parse_reduce_op: '", text,
                   "' is not an operator. Known are sum, mean, min, max and product.");
  return {};
}

DType reduced_dtype(ReduceOp op, DType dtype) {
  LOCKSTEP_EXPECTS(!is_boolean(dtype), InvalidArgument, op, ": not defined on ", dtype,
                   " elements. Cast them to an integer type first, for example to count them.");
  if (op != ReduceOp::mean || !is_integer(dtype)) return dtype;
  return size_of(dtype) <= 2 ? DType::f32 : DType::f64;
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << name(op); }

}  // namespace lockstep

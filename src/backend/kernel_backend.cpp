#include <lockstep/backend/kernel_backend.hpp>

namespace lockstep::backend {

const char* name(BinaryOp op) {
  switch (op) {
    case BinaryOp::add: return "add";
    case BinaryOp::subtract: return "subtract";
    case BinaryOp::multiply: return "multiply";
    case BinaryOp::divide: return "divide";
    case BinaryOp::equal: return "equal";
    case BinaryOp::relu_gradient: break;
  }
  return "relu_gradient";
}

const char* name(UnaryOp op) {
  switch (op) {
    case UnaryOp::negate: return "negate";
    case UnaryOp::exp: return "exp";
    case UnaryOp::log: return "log";
    case UnaryOp::sqrt: return "sqrt";
    case UnaryOp::relu: break;
  }
  return "relu";
}

}  // namespace lockstep::backend

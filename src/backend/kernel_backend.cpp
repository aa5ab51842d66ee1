#include <lockstep/backend/kernel_backend.hpp>

namespace lockstep::backend {

void KernelBackend::sgd_updates(std::span<const UpdateTensors> updates, const UpdateParameters& parameters,
                                StreamHandle stream) {
  for (const auto& [variable, gradient, velocity, none] : updates)
    sgd_update(variable, velocity, gradient, parameters, stream);
}

void KernelBackend::adam_updates(std::span<const UpdateTensors> updates, const UpdateParameters& parameters,
                                 StreamHandle stream) {
  for (const auto& [variable, gradient, first_moment, second_moment] : updates)
    adam_update(variable, first_moment, second_moment, gradient, parameters, stream);
}

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

const char* name(ScatterOp op) {
  switch (op) {
    case ScatterOp::add: return "scatter_add";
    case ScatterOp::subtract: return "scatter_sub";
    case ScatterOp::multiply: return "scatter_mul";
    case ScatterOp::divide: return "scatter_div";
    case ScatterOp::min: return "scatter_min";
    case ScatterOp::max: return "scatter_max";
    case ScatterOp::assign: break;
  }
  return "scatter_update";
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

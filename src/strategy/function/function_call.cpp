#include <algorithm>
#include <cstring>

#include <lockstep/strategy/detail/function_call.hpp>

namespace lockstep::detail {

void FunctionSignature::add(std::string_view bytes) {
  words_.push_back(bytes.size());
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), sizeof(std::uint64_t)))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    words_.push_back(word);
  }
}

void FunctionSignature::add(const Tensor& tensor) {
  if (!tensor.defined()) return words_.push_back(~std::uint64_t{0});
  const Shape& shape = tensor.shape();
  const Device& device = tensor.device();
  words_.push_back(static_cast<std::uint64_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) words_.push_back(static_cast<std::uint64_t>(shape[axis]));
  words_.push_back(static_cast<std::uint64_t>(tensor.dtype()) << 40 |
                   static_cast<std::uint64_t>(device.kind()) << 32 |
                   static_cast<std::uint32_t>(device.index()));
}

void FunctionSignature::add_place(const Tensor& tensor) {
  if (!tensor.defined()) return;
  const TensorView view = tensor.view();
  words_.push_back(reinterpret_cast<std::uintptr_t>(view.data));
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    words_.push_back(static_cast<std::uint64_t>(view.strides[static_cast<std::size_t>(axis)]));
}

void FunctionSignature::add(const Variable& variable) {
  words_.push_back(reinterpret_cast<std::uintptr_t>(VariableAccess::state(variable).get()));
  variables_.push_back(variable);
}

}  // namespace lockstep::detail

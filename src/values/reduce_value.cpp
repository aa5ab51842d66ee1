#include <lockstep/values/reduce_value.hpp>

namespace lockstep {

namespace {
const std::vector<Tensor>& components(const Variable& variable) {
  return detail::VariableState::of(variable)->components;
}
}  // namespace

ReduceValue::ReduceValue(const Variable& variable)
    : kind_(detail::VariableState::of(variable)->is_sync_on_read ? Kind::per_replica
            : components(variable).size() > 1                    ? Kind::mirrored
                                                                 : Kind::plain) {
  for (const Tensor& component : components(variable)) tensors_.push_back(component.read_only());
}

Destination::Destination(const Variable& variable)
    : Destination(components(variable).begin(), components(variable).end()) {}

Destination::Destination(const std::vector<Device>& devices) {
  LOCKSTEP_EXPECTS(
      false, InvalidArgument, "a list of ", devices.size(),
      " devices is no destination. Pass one device, a variable, or a value that lives on the devices.");
}

}  // namespace lockstep

#include <lockstep/values/reduce_value.hpp>

namespace lockstep {

ReduceValue::ReduceValue(const Variable& variable)
    : kind_(detail::VariableState::of(variable)->is_sync_on_read ? Kind::per_replica
            : detail::VariableState::of(variable)->is_mirrored() ? Kind::mirrored
                                                                 : Kind::plain),
      tensors_(detail::VariableState::snapshot(variable)) {}

Destination::Destination(const Variable& variable) {
  const std::vector<Device>& devices = detail::VariableState::of(variable)->devices;
  devices_.assign(devices.begin(), devices.end());
}

Destination::Destination(const char* device) : devices_{Device(device)} {
  LOCKSTEP_EXPECTS(*device != '\0', InvalidArgument,
                   "Destination: the name is empty. Name a device, as GPU:0, or pass a variable or a value.");
}

Destination::Destination(const std::vector<Device>& devices) {
  LOCKSTEP_EXPECTS(
      false, InvalidArgument, "Destination: a list of ", devices.size(),
      " devices is no destination. Pass one device, a variable, or a value that lives on the devices.");
}

}  // namespace lockstep

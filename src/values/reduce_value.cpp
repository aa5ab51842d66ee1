#include <lockstep/values/reduce_value.hpp>

#include "detail/expects.hpp"

namespace lockstep {

ReduceValue::ReduceValue(const PerReplica<Tensor>& value)
    : kind_(value.is_same_object() && value.size() > 1 ? Kind::plain : Kind::per_replica),
      tensors_(value.begin(), value.end()) {}
ReduceValue::ReduceValue(const Mirrored<Tensor>& value)
    : kind_(Kind::mirrored), tensors_(value.begin(), value.end()) {}
ReduceValue::ReduceValue(const Tensor& value) : kind_(Kind::plain), tensors_{value} {}
ReduceValue::ReduceValue(const PerReplica<IndexedSlices>& value)
    : kind_(Kind::per_replica), slices_(value.begin(), value.end()) {}
ReduceValue::ReduceValue(const Mirrored<IndexedSlices>& value)
    : kind_(Kind::mirrored), slices_(value.begin(), value.end()) {}
ReduceValue::ReduceValue(const IndexedSlices& value) : kind_(Kind::plain), slices_{value} {}

ReduceValue::ReduceValue(const Variable& variable)
    : kind_(detail::VariableAccess::is_sync_on_read(variable) ? Kind::per_replica
            : detail::VariableAccess::is_mirrored(variable)   ? Kind::mirrored
                                                              : Kind::plain),
      tensors_(detail::VariableAccess::snapshot(variable)) {}

detail::RecycledVector<Tensor> ReduceValue::tensors() const&& { return checked().tensors_; }
detail::RecycledVector<IndexedSlices> ReduceValue::slices() const&& { return checked().slices_; }

Destination::Destination(const Device& device) : devices_{device} {}
Destination::Destination(const Tensor& tensor) : devices_{tensor.device()} {}

Destination::Destination(const Variable& variable) {
  const std::vector<Device>& devices = detail::VariableAccess::devices(variable);
  devices_.assign(devices.begin(), devices.end());
}

Destination::Destination(const char* device) : devices_{Device(device)} {
  LOCKSTEP_EXPECTS(*device != '\0', InvalidArgument,
                   "Destination: the name is empty. Name a device, as GPU:0, or pass a variable or a value.");
}

Destination::Destination(const std::vector<Device>& devices) {
  LOCKSTEP_EXPECTS(
      false, InvalidArgument, "Destination: a list of ", devices.size(),
      " devices is not a destination. Pass one device, a variable, or a value that lives on the devices.");
}

detail::RecycledVector<Device> Destination::devices() const&& { return devices(); }

}  // namespace lockstep

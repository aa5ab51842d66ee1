#include <lockstep/strategy/mirrored_strategy.hpp>

#include "detail/expects.hpp"
#include "strategy/runtime/default_devices.hpp"
#include "strategy/runtime/ignored_cluster.hpp"
#include "strategy/strategy_config.hpp"

namespace lockstep {

namespace {

detail::StrategyConfig configure(std::vector<Device> devices,
                                 std::unique_ptr<CrossDeviceOps> cross_device_ops,
                                 const CommunicationOptions& options) {
  return {.kind = {.name = "MirroredStrategy", .has_per_replica_input = true},
          .logical_devices = {detail::or_default_devices(std::move(devices))},
          .options = options,
          .cross_device_ops = std::move(cross_device_ops)};
}

std::unique_ptr<CrossDeviceOps> checked(std::unique_ptr<CrossDeviceOps> cross_device_ops) {
  LOCKSTEP_EXPECTS(cross_device_ops != nullptr, InvalidArgument,
                   "MirroredStrategy: cross_device_ops is null. Leave the argument out for the default.");
  return cross_device_ops;
}

}  // namespace

MirroredStrategy::MirroredStrategy() : MirroredStrategy(std::vector<Device>()) {}

MirroredStrategy::MirroredStrategy(std::initializer_list<Device> devices, const CommunicationOptions& options)
    : MirroredStrategy(std::vector<Device>(devices), options) {}

MirroredStrategy::MirroredStrategy(std::vector<Device> devices, const CommunicationOptions& options)
    : Strategy(configure(std::move(devices), nullptr, options)) {
  detail::warn_if_cluster_is_ignored(name(), cluster::environment_variables());
}

MirroredStrategy::MirroredStrategy(std::vector<Device> devices,
                                   std::unique_ptr<CrossDeviceOps> cross_device_ops,
                                   const CommunicationOptions& options)
    : Strategy(configure(std::move(devices), checked(std::move(cross_device_ops)), options)) {
  detail::warn_if_cluster_is_ignored(name(), cluster::environment_variables());
}

}  // namespace lockstep

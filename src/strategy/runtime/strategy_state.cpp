#include "strategy/runtime/strategy_state.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>

#include "collectives/checked_reduce.hpp"
#include "collectives/packed_all_reduce.hpp"
#include "detail/expects.hpp"

namespace lockstep::detail {

namespace {

void check_devices(const std::vector<Device>& devices, std::string_view strategy) {
  DeviceManager& manager = DeviceManager::instance();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    LOCKSTEP_EXPECTS(devices[i].is_local(), ContextError, strategy, ": device ", devices[i],
                     " belongs to another task. Pass devices of this process.");
    for (std::size_t j = 0; j < i; ++j)
      LOCKSTEP_EXPECTS(
          devices[j] != devices[i], InvalidArgument, strategy, ": device ", devices[i],
          " is listed twice, for replicas ", j, " and ", i,
          ". List each device once; several replicas on one GPU are virtual devices (set_virtual_devices).");
    try {
      manager.open(devices[i]);
    } catch (const NotFound& error) {
      raise<NotFound>(error.context().location, concat(strategy, ": ", error.what()));
    }
  }
}

StrategyConfig checked(StrategyConfig config) {
  std::vector<Device> all;
  for (const std::vector<Device>& devices : config.logical_devices)
    all.insert(all.end(), devices.begin(), devices.end());
  check_devices(all, config.kind.name);
  check_devices(config.parameter_devices, config.kind.name);
  config.options = config.options.merged_over({});
  return config;
}

backend::DeviceBackend* first_backend(const std::vector<Device>& devices) {
  return devices.empty() ? nullptr : &DeviceManager::instance().open(devices.front());
}

}  // namespace

StrategyState::StrategyState(Strategy& strategy, StrategyConfig config)
    : config_(checked(std::move(config))),
      groups_(strategy, config_.logical_devices),
      executor_(strategy, groups_, first_backend(config_.parameter_devices)),
      failures_(num_replicas()),
      calls_(strategy, config_.kind.name, executor_.threads()),
      extended_(strategy) {}

StrategyState::~StrategyState() {
  std::vector<StreamRef> streams;
  for (const ReplicaGroup& group : groups_)
    for (const std::optional<Stream>& stream : group.communication_streams())
      if (stream) streams.push_back(*stream);
  for (const Device& device : all_devices()) streams.push_back(current_stream(device));
  for (const StreamRef& stream : streams) {
    try {
      stream.synchronize();
    } catch (const Error&) {  // the next read of a result throws it
    }
  }
}

std::vector<Device> StrategyState::all_devices() const {
  std::vector<Device> all;
  for (const ReplicaGroup& group : groups_)
    all.insert(all.end(), group.devices().begin(), group.devices().end());
  for (const Device& device : config_.parameter_devices)
    if (std::ranges::find(all, device) == all.end()) all.push_back(device);
  return all;
}

RecycledVector<RecycledVector<Tensor>> StrategyState::reduce(ReplicaGroup& group, ReduceOp op,
                                                             std::span<const RecycledVector<Tensor>> inputs,
                                                             int root,
                                                             const CommunicationOptions& call_options) {
  const std::vector<Device>& devices = group.devices();
  if (CrossDeviceOps* const ops = cross_device_ops()) return checked_reduce(*ops, op, inputs, devices, root);
  const std::size_t n = devices.size();
  const CommunicationOptions merged = call_options.merged_over(options());
  std::int64_t bytes = 0;
  for (const Tensor& tensor : inputs[0]) bytes += tensor.nbytes();

  RecycledVector<RecycledVector<Tensor>> results(n);
  auto batch = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (root < 0 || root == rank) results[r] = empty_results(op, inputs[r], devices[r]);
    return OwnedBatch(rank, current_stream(devices[r]), inputs[r], results[r]);
  };
  auto issue = [&](std::span<const RankBatch> batches) {
    if (root < 0)
      all_reduce(group.communicator(), op, batches, merged);
    else
      group.communicator().reduce(op, root, batches, merged);
  };
  if (bytes >= kThreadedBytes && n > 1) {
    const auto issue_own = [&](int rank) {
      const OwnedBatch own = batch(rank);
      issue({&own.batch(), 1});
    };
    executor_.run(issue_own);
  } else {
    RecycledVector<OwnedBatch> owned;
    RecycledVector<RankBatch> batches;
    owned.reserve(n);
    batches.reserve(n);
    for (int rank = 0; rank < num_replicas(); ++rank) owned.push_back(batch(rank));
    for (const OwnedBatch& own : owned) batches.push_back(own.batch());
    issue(batches);
  }
  return results;
}

}  // namespace lockstep::detail

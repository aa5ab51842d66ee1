#include "strategy/runtime/replica_groups.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "cluster/worker_group.hpp"
#include "detail/expects.hpp"
#include "trace/call_group.hpp"

namespace lockstep::detail {

namespace {

/// "replica 1 (CPU:2, CPU:3)".
std::vector<std::string> labels(const std::vector<ReplicaGroup>& groups) {
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < groups.front().devices().size(); ++r) {
    texts.push_back(concat("replica ", r, " ("));
    for (const ReplicaGroup& group : groups)
      texts.back() += concat(&group == &groups.front() ? "" : ", ", group.devices()[r]);
    texts.back() += ")";
  }
  return texts;
}

std::vector<ReplicaGroup> make_groups(const std::vector<std::vector<Device>>& logical_devices,
                                      const CommunicationOptions& options, WorkerGroup* workers) {
  std::vector<ReplicaGroup> groups;
  groups.reserve(logical_devices.size());
  for (const std::vector<Device>& devices : logical_devices) groups.emplace_back(devices, options, workers);
  return groups;
}

}  // namespace

std::vector<backend::DeviceBackend*> open_all(const std::vector<Device>& devices) {
  std::vector<backend::DeviceBackend*> opened;
  for (const Device& device : devices) opened.push_back(&DeviceManager::instance().open(device));
  return opened;
}

ReplicaGroup::ReplicaGroup(std::vector<Device> devices, const CommunicationOptions& options,
                           WorkerGroup* workers, std::string_view member)
    : devices_(std::move(devices)),
      device_backends_(open_all(devices_)),
      communicator_(workers == nullptr
                        ? Communicator::create(devices_, member, options)
                        : Communicator::create(devices_, member, options, *workers, workers->meeting())),
      first_rank_(communicator_.first_rank()),
      num_ranks_(communicator_.num_ranks()),
      communication_streams_(devices_.size()) {}

void ReplicaGroup::meet_all(const Arrival& arrival, const Rendezvous::Check& check,
                            std::chrono::milliseconds timeout, std::span<const TensorView> tensors) {
  std::vector<int> ranks;
  std::vector<Arrival> arrivals;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    ranks.push_back(first_rank_ + static_cast<int>(i));
    arrivals.push_back(arrival);
    if (!tensors.empty()) arrivals.back().tensors = tensors.subspan(i, 1);
  }
  communicator_.meet(ranks, arrivals, check, timeout);
}

std::string ReplicaGroup::label(int rank) const {
  return concat("replica ", rank, " (", communicator_.devices()[static_cast<std::size_t>(rank)], ")");
}

StreamRef ReplicaGroup::communication_stream(int i) {
  const auto index = static_cast<std::size_t>(i);
  if (!communication_streams_[index]) communication_streams_[index] = Stream::urgent(devices_[index]);
  return *communication_streams_[index];
}

ReplicaGroups::ReplicaGroups(const Strategy& strategy,
                             const std::vector<std::vector<Device>>& logical_devices,
                             const CommunicationOptions& options, WorkerGroup* workers)
    : strategy_(strategy),
      groups_(make_groups(logical_devices, options, workers)),
      rendezvous_(groups_.size() == 1 ? nullptr : std::make_unique<Rendezvous>(labels(groups_))) {}

Report ReplicaGroups::report(std::string_view strategy) const {
  Report report;
  for (const ReplicaGroup& group : groups_) {
    report.groups.push_back(std::move(group.communicator().report().groups.front()));
    report.groups.back().name = groups_.size() == 1
                                    ? std::string(strategy)
                                    : concat(strategy, ", logical device ", &group - groups_.data());
  }
  if (rendezvous_)
    report.groups.push_back(rendezvous_->calls().report(std::string(strategy), first_replica()));
  return report;
}

int ReplicaGroups::find(std::span<const Device> devices) const noexcept {
  const auto found = std::ranges::find_if(
      groups_, [&](const ReplicaGroup& group) { return std::ranges::equal(group.devices(), devices); });
  return found == groups_.end() ? -1 : static_cast<int>(found - groups_.begin());
}

ReplicaGroup& ReplicaGroups::agree_on_current(int replica, std::string_view operation,
                                              std::chrono::milliseconds timeout) {
  if (groups_.size() == 1) return groups_.front();
  const std::size_t own = current_index();
  const auto check = [&](std::span<const Arrival* const> arrivals) {
    const auto logical_device = [&](std::size_t r) {
      return *static_cast<const std::size_t*>(arrivals[r]->payload);
    };
    for (std::size_t r = 1; r < arrivals.size(); ++r)
      LOCKSTEP_EXPECTS(logical_device(r) == logical_device(0), CollectiveMismatch, operation, ": replica ", r,
                       " calls it on logical device ", logical_device(r), ", replica 0 on logical device ",
                       logical_device(0), ". Open the same logical_device guards on every replica.");
  };
  rendezvous().meet(replica, {.operation = operation, .payload = &own}, check, timeout);
  return groups_[own];
}

}  // namespace lockstep::detail

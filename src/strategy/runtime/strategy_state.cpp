#include "strategy/runtime/strategy_state.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/graph_backend.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>

#include "cluster/worker_group.hpp"
#include "collectives/checked_reduce.hpp"
#include "collectives/packed_all_reduce.hpp"
#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"
#include "strategy/function/function_state.hpp"
#include "strategy/function/last_launch.hpp"
#include "strategy/runtime/default_devices.hpp"
#include "strategy/runtime/replica_gather.hpp"
#include "trace/call_group.hpp"

namespace lockstep::detail {

namespace {

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
      groups_(strategy, config_.logical_devices, config_.options, config_.workers.get()),
      executor_(strategy, groups_, first_backend(config_.parameter_devices)),
      failures_(first_replica(), num_local_replicas()),
      calls_(strategy, config_.kind.name, executor_.threads(), workers() != nullptr),
      extended_(strategy) {
  if (workers() == nullptr) return;
  worker_group_.emplace(std::vector<Device>{cpu_0()}, options(), workers(), "worker");
  workers()->call_at_end([this](const std::string& cause) {
    for (ReplicaGroup& group : groups_) group.abort(cause);
    worker_group_->abort(cause);
  });
  workers()->answer_with([this] {
    Report own = own_report();
    for (GroupReport& group : own.groups)
      for (RankReport& rank : group.ranks)
        if (rank.calls.size() > 1) rank.calls.erase(rank.calls.begin(), rank.calls.end() - 1);
    return own.to_json();
  });
  workers()->meeting().on_time_out([this] {
    std::string text;
    const Report all = report();
    for (const RankReport& rank : all.groups.front().ranks)
      text += concat(text.empty() ? " What the replicas did last: " : "; ", rank);
    return text + ".";
  });
}

void StrategyState::meet_workers(std::string_view operation, FunctionRef<void(WorkerMeeting&)> meet) {
  WorkerMeeting& meeting = workers()->meeting();
  try {
    worker_group_->rendezvous().meet(0, {.operation = operation},
                                     [&](std::span<const Arrival* const>) { meet(meeting); },
                                     /*timeout=*/{});
  } catch (const CollectiveError&) {  // a loss aborts the group
    meeting.throw_if_lost(operation);
    throw;
  }
}

void StrategyState::fail_workers(const std::exception_ptr& error) noexcept {
  workers()->fail(error);
  // Workers may have come to more calls than others. Their next ones have equal numbers again, for reports.
  const std::uint64_t least = workers()->meeting().epoch() << 40;
  groups_.for_each_rendezvous([&](Rendezvous& rendezvous) { rendezvous.reset(least); });
  worker_group_->rendezvous().reset(least);
}

Report StrategyState::own_report() const {
  Report report = groups_.report(config_.kind.name);
  if (!worker_group_) return report;
  report.groups.push_back(std::move(worker_group_->communicator().report().groups.front()));
  report.groups.back().name = concat(config_.kind.name, ", workers");
  return report;
}

Report StrategyState::report() {
  Report report = own_report();
  if (workers() == nullptr) return report;
  std::vector<Report> others;
  for (const std::optional<std::string>& answer : workers()->ask())
    if (answer) others.push_back(report_from_json(*answer));
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    const bool is_of_workers = g + 1 == report.groups.size();
    const ReplicaGroup& group = is_of_workers ? *worker_group_ : groups_.front();
    std::vector<RankReport> own = std::exchange(report.groups[g].ranks, {});
    std::vector<RankReport>& all = report.groups[g].ranks;
    for (int rank = 0; rank < group.num_ranks(); ++rank)
      all.push_back({.rank = rank, .label = concat("replica ", rank), .is_known = false, .calls = {}});
    const auto set = [&](std::vector<RankReport>& ranks) {
      for (RankReport& rank : ranks)
        if (0 <= rank.rank && rank.rank < group.num_ranks())
          all[static_cast<std::size_t>(rank.rank)] = std::move(rank);
    };
    set(own);
    for (Report& other : others)
      if (g < other.groups.size()) set(other.groups[g].ranks);
    mark_missing(report.groups[g]);  // among the ranks of all workers
    if (!is_of_workers) continue;
    for (RankReport& rank : all) rank.label = workers()->label(rank.rank);
  }
  return report;
}

Tensor StrategyState::gather(const ReduceValue& value, std::int64_t axis) {
  if (value.kind() == ReduceValue::Kind::plain || value.num_components() < num_local_replicas())
    return gather_over(worker_group(), 0, std::span(value.tensors()).first(1), axis, {}, options())[0];
  RecycledVector<Tensor> results(static_cast<std::size_t>(num_local_replicas()));
  executor_.run([&](int i) {
    const auto index = static_cast<std::size_t>(i);
    results[index] =
        gather_over(groups_.front(), i, std::span(value.tensors()).subspan(index, 1), axis, {}, options())[0];
  });
  return results[0];
}

InputContext StrategyState::input_context() const {
  const WorkerGroup* const group = config_.workers.get();
  return group == nullptr ? InputContext(1, 0, num_replicas())
                          : InputContext(group->num_processes(), group->process(), num_replicas());
}

void StrategyState::agree_on_variable(std::string_view operation, std::string_view name) {
  if (workers() == nullptr) return;
  ReplicaGroup& group = groups_.front();
  const auto check = [&](std::span<const Arrival* const> arrivals) {
    for (std::size_t r = 1; r < arrivals.size(); ++r)
      LOCKSTEP_EXPECTS(arrivals[r]->text == arrivals[0]->text, CollectiveMismatch, operation, ": ",
                       group.label(static_cast<int>(r)), " calls it for the variable '", arrivals[r]->text,
                       "' where ", group.label(0), " calls it for the variable '", arrivals[0]->text,
                       "'. Make the same calls in the same order on every replica.");
  };
  group.meet_all({.operation = operation, .text = name}, check, options().timeout);
}

Tensor StrategyState::from_chief(const Tensor& tensor) {
  if (workers() == nullptr) return tensor;
  ReplicaGroup& group = worker_group();
  const Tensor own = tensor.to(cpu_0()).contiguous();
  Tensor result = Tensor::empty(own.shape(), own.dtype(), cpu_0());
  const TensorView in = own.view(), out = result.view();
  const bool is_chief = group.first_rank() == 0;
  const RankBatch batch{group.first_rank(), current_stream(cpu_0()), {&in, std::size_t{is_chief}}, {&out, 1}};
  group.communicator().broadcast(0, {&batch, 1}, options());
  return result.to(tensor.device());
}

void StrategyState::add(const std::shared_ptr<FunctionState>& function) {
  const std::lock_guard lock(functions_mutex_);
  std::erase_if(functions_, [](const auto& one) { return one.expired(); });
  functions_.push_back(function);
}

std::shared_ptr<LastLaunch> StrategyState::last_launch(backend::DeviceBackend& first) {
  std::shared_ptr<LastLaunch>& last = last_launches_[first.graphs()->hardware()];
  if (last == nullptr) last = std::make_shared<LastLaunch>(first);
  return last;
}

std::vector<StreamRef> StrategyState::streams() const {
  std::vector<StreamRef> streams;
  for (const ReplicaGroup& group : groups_)
    for (const std::optional<Stream>& stream : group.communication_streams())
      if (stream) streams.push_back(*stream);
  for (const Device& device : all_devices()) streams.push_back(current_stream(device));
  return streams;
}

StrategyState::~StrategyState() {
  const auto finish = [](const StreamRef& stream) { stream.device_backend().finish(stream.handle()); };
  for (const ReplicaGroup& group : groups_)
    for (const std::optional<Stream>& stream : group.communication_streams())
      if (stream) finish(*stream);
  for (const Device& device : all_devices()) try {
      finish(current_stream(device));
    } catch (const Error&) {  // a device that was lost before its first use has no stream
    }
  for (const std::weak_ptr<FunctionState>& function : functions_)
    if (const auto alive = function.lock()) alive->drop();
  // Until here the loss of a worker ends what the streams wait for.
  if (workers() != nullptr) workers()->leave();
}

IndexedSlices StrategyState::from_chief(const IndexedSlices& slices) {
  if (workers() == nullptr) return slices;
  // The number of rows is the chief's, so that the others bring none to a gather.
  const auto gathered = [&](const Tensor& tensor) {
    const Tensor own = worker_group().first_rank() == 0 ? tensor : tensor.slice(0, 0);
    return gather_over(worker_group(), 0, {&own, 1}, 0, {}, options())[0].to(tensor.device());
  };
  return {gathered(slices.values), gathered(slices.indices), slices.dense_shape};
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
  // Every worker needs the result, so that there is no single root.
  const bool is_for_all = root < 0 || workers() != nullptr;
  auto batch = [&](int i) {
    const auto r = static_cast<std::size_t>(i);
    if (is_for_all || root == i) results[r] = empty_results(op, inputs[r], devices[r]);
    return OwnedBatch(group.first_rank() + i, current_stream(devices[r]), inputs[r], results[r]);
  };
  auto issue = [&](std::span<const RankBatch> batches) {
    if (is_for_all)
      all_reduce(group.communicator(), op, batches, merged);
    else
      group.communicator().reduce(op, root, batches, merged);
  };
  // The group of the workers is of one device, whatever the replicas are.
  if (n == static_cast<std::size_t>(num_local_replicas()) && executor_.are_worth_threads(bytes)) {
    const auto issue_own = [&](int i) {
      const OwnedBatch own = batch(i);
      issue({&own.batch(), 1});
    };
    executor_.run(issue_own);
  } else {
    RecycledVector<OwnedBatch> owned;
    RecycledVector<RankBatch> batches;
    owned.reserve(n);
    batches.reserve(n);
    for (int i = 0; i < static_cast<int>(n); ++i) owned.push_back(batch(i));
    for (const OwnedBatch& own : owned) batches.push_back(own.batch());
    issue(batches);
  }
  return results;
}

}  // namespace lockstep::detail

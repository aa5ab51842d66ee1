#include "strategy/runtime/strategy_state.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <list>
#include <new>

#include <lockstep/strategy/sync_on_read.hpp>
#include <lockstep/stream.hpp>

#include "collectives/checked_reduce.hpp"
#include "collectives/packed_all_reduce.hpp"
#include "detail/expects.hpp"
#include "detail/numa.hpp"
#include "detail/thread_end.hpp"
#include "detail/warn.hpp"

namespace lockstep::detail {

namespace {

// What a replica's thread takes along to a run, and brings back: one cache line.
struct alignas(64) Seat {
  StreamRef stream, parameter_stream;
  std::exception_ptr error{};
  bool is_consequence = false;

  void keep_error(bool consequence) {
    error = std::current_exception();
    is_consequence = consequence;
  }
};

std::vector<backend::DeviceBackend*> open_all(const std::vector<Device>& devices) {
  std::vector<backend::DeviceBackend*> opened;
  for (const Device& device : devices) opened.push_back(&DeviceManager::instance().open(device));
  return opened;
}

/// "replica 1 (CPU:2, CPU:3)".
std::vector<std::string> labels(const std::vector<ReplicaGroup>& groups) {
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < groups.front().devices.size(); ++r) {
    texts.push_back(concat("replica ", r, " ("));
    for (const ReplicaGroup& group : groups)
      texts.back() += concat(&group == &groups.front() ? "" : ", ", group.devices[r]);
    texts.back() += ")";
  }
  return texts;
}

/// The run waits for functions that may take as long as they like.
void say_timed_out(int replica, const CollectiveTimeout& error) noexcept {
  try {
    warn(concat("run: replica ", replica, "'s function has ended: ", error.what(),
                " The run throws this when the other replicas' functions have returned."));
  } catch (const std::bad_alloc&) {
  }
}

/// Nobody could go on: neither the call, nor those that meet the calling thread in it.
[[noreturn]] void destroyed_in_own_call(std::string_view strategy) {
  warn(concat(strategy,
              " was destroyed in a function that one of its own calls, as run, update or make_variable, has "
              "called, and that call cannot go on without it. Destroy a strategy after its calls have "
              "returned."));
  std::terminate();
}

}  // namespace

std::exception_ptr late_release(int replica) {
  const std::string message = concat(
      "run: replica ", replica,
      "'s function threw what had released a replica of an earlier run from its wait. Do not keep what "
      "catch (...) gets in a replica function for later: let it pass.");
  return std::make_exception_ptr(
      ContextError(message, complete({.location = {__FILE__, __LINE__, __func__}}, message)));
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

ReplicaGroup::ReplicaGroup(std::vector<Device> devices_)
    : devices(std::move(devices_)),
      device_backends(open_all(devices)),
      communicator(Communicator::create(devices, "replica")),
      communication_streams(devices.size()) {}

StreamRef ReplicaGroup::communication_stream(int i) {
  const auto index = static_cast<std::size_t>(i);
  if (!communication_streams[index]) communication_streams[index].emplace(devices[index]);
  return *communication_streams[index];
}

StrategyState::StrategyState(Strategy& strategy_, const StrategyKind& kind_,
                             std::vector<std::vector<Device>> logical_devices,
                             std::vector<Device> parameter_devices, const CommunicationOptions& options_)
    : strategy(strategy_),
      kind(kind_),
      life(&strategy_, [](const Strategy*) {}),
      groups(std::make_move_iterator(logical_devices.begin()),
             std::make_move_iterator(logical_devices.end())),
      meeting_place(groups.size() == 1 ? nullptr : std::make_unique<Rendezvous>(labels(groups))),
      other_parameter_devices(std::move(parameter_devices)),
      other_parameter_backends(open_all(other_parameter_devices)),
      options(options_.merged_over({})),
      extended(strategy_),
      threads(num_replicas(),
              [this](int i) {
                ThreadEnd::watch();
                const Device& device = groups.front().devices[static_cast<std::size_t>(i)];
                try {
                  Numa::machine().bind_thread(DeviceManager::instance().info(device).numa_node);
                } catch (const Error&) {  // only advice, which takes the device manager
                }
              }),
      failures(static_cast<std::size_t>(num_replicas())) {
  ThreadEnd::watch();
}

StrategyState::Call::Call(StrategyState& state, std::string_view what)
    : state_(state),
      lock_([&] {
        LOCKSTEP_EXPECTS(!state.is_forked(), ContextError, what,
                         ": this process is a fork of the one in which ", state.kind.name,
                         " was used, and has none of its threads. Make the strategy after the fork, or fork "
                         "before its first run.");
        return std::unique_lock(state.mutex);
      }()),
      outer_(state.called_in.load(std::memory_order_relaxed)) {
  LOCKSTEP_EXPECTS(
      !state.is_closed, ContextError, what,
      ": the strategy is being destroyed. Make no calls of it then: end the threads that do, and "
      "thread_local objects, before.");
  state.called_in.store(Process(), std::memory_order_relaxed);
}

StrategyState::Call::~Call() {
  // A fork that was made meanwhile cannot unlock the mutex.
  if (!state_.called_in.load(std::memory_order_relaxed).is_forked())
    state_.called_in.store(outer_, std::memory_order_relaxed);
}

bool StrategyState::close() {
  if (ContextFrame::is_in_call_of(strategy)) {
    if (!ThreadEnd::has_begun()) destroyed_in_own_call(kind.name);
    return false;
  }
  if (is_forked()) {
    life.reset();
    return false;
  }
  {
    std::unique_lock lock(mutex, std::defer_lock);
    if (!ThreadEnd::has_begun())
      lock.lock();
    else if (!lock.try_lock())
      return false;
    is_closed = true;
  }
  threads.stop();
  return true;
}

int StrategyState::logical_device_on(std::span<const Device> devices) const noexcept {
  const auto found = std::ranges::find_if(
      groups, [&](const ReplicaGroup& group) { return std::ranges::equal(group.devices, devices); });
  return found == groups.end() ? -1 : static_cast<int>(found - groups.begin());
}

ReplicaGroup& StrategyState::meet_in_group(int replica, std::string_view operation,
                                           std::chrono::milliseconds timeout) {
  if (groups.size() == 1) return groups.front();
  const std::size_t mine = current_logical_device();
  const auto check = [&](std::span<const Arrival* const> arrivals) {
    const auto logical_device = [&](std::size_t r) {
      return *static_cast<const std::size_t*>(arrivals[r]->payload);
    };
    for (std::size_t r = 1; r < arrivals.size(); ++r)
      LOCKSTEP_EXPECTS(logical_device(r) == logical_device(0), CollectiveMismatch, operation, ": replica ", r,
                       " calls it on logical device ", logical_device(r), ", replica 0 on logical device ",
                       logical_device(0), ". Open the same logical_device guards on every replica.");
  };
  rendezvous().meet(replica, {.operation = operation, .payload = &mine}, check, timeout);
  return groups[mine];
}

std::vector<Device> StrategyState::all_devices() const {
  std::vector<Device> all;
  for (const ReplicaGroup& one : groups) all.insert(all.end(), one.devices.begin(), one.devices.end());
  for (const Device& device : other_parameter_devices)
    if (std::ranges::find(all, device) == all.end()) all.push_back(device);
  return all;
}

StrategyState::~StrategyState() {
  std::vector<StreamRef> streams;
  for (const ReplicaGroup& one : groups)
    for (const std::optional<Stream>& stream : one.communication_streams)
      if (stream) streams.push_back(*stream);
  for (const Device& device : all_devices()) streams.push_back(current_stream(device));
  for (const StreamRef& stream : streams) {
    try {
      stream.synchronize();
    } catch (const Error&) {  // whoever reads a result is told
    }
  }
}

void StrategyState::set_failure(std::size_t replica, std::exception_ptr error) noexcept {
  if (failures[replica] == error) return;  // only this thread, or this replica, writes it
  const std::lock_guard lock(failures_mutex);
  failures[replica].swap(error);  // the old one goes without the lock
}

void StrategyState::run_on_replicas(FunctionRef<void(int)> fn, OfFailures of_failures) {
  for_each_rendezvous([](Rendezvous& rendezvous) { rendezvous.reset(); });
  RecycledVector<Seat> seats;
  const auto n = static_cast<std::size_t>(num_replicas());
  seats.reserve(n);
  // The calling thread's guards, which the others do not see: streams, logical device, sync_on_read.
  const bool reads_are_synced = sync_on_read::is_active();
  const auto logical_device = static_cast<int>(current_logical_device());
  const StreamRef parameter_stream = current_stream(*parameter_backends().front());
  for (backend::DeviceBackend* const device : groups.front().device_backends)
    seats.push_back({current_stream(*device), parameter_stream});
  RecycledVector<StreamRef> further_streams;  // of further logical devices: [...][n]
  further_streams.reserve((groups.size() - 1) * n);
  for (std::size_t k = 1; k < groups.size(); ++k)
    for (backend::DeviceBackend* const device : groups[k].device_backends)
      further_streams.push_back(current_stream(*device));
  std::atomic<bool> has_timed_out{false};
  const auto job = [&](int i) {
    const auto index = static_cast<std::size_t>(i);
    Seat& seat = seats[index];
    const StreamScope parameters(seat.parameter_stream);
    const StreamScope stream(seat.stream);
    std::list<StreamScope, RecyclingAllocator<StreamScope>> further;
    std::optional<LogicalDeviceScope> here;
    std::optional<sync_on_read> synced;
    try {
      for (std::size_t at = index; at < further_streams.size(); at += n)
        further.emplace_front(further_streams[at]);
      if (groups.size() > 1) here.emplace(strategy, logical_device);
      if (reads_are_synced) synced.emplace();
      fn(i);
      for_each_rendezvous([i](Rendezvous& rendezvous) { rendezvous.leave(i); });
      return;
    } catch (const Released&) {
      if (rendezvous().has_released()) return;  // another replica failed, and has said so
      seat.error = late_release(i);
      seat.is_consequence = true;
    } catch (const MissingRank&) {
      seat.keep_error(true);
    } catch (const CollectiveAborted&) {  // another replica's failure is why, if there is one
      seat.keep_error(true);
    } catch (const CollectiveTimeout& error) {
      seat.keep_error(false);
      if (of_failures == OfFailures::told && !has_timed_out.exchange(true)) say_timed_out(i, error);
    } catch (...) {
      seat.keep_error(false);
    }
    if (of_failures == OfFailures::told) set_failure(index, seat.error);
    for_each_rendezvous([i](Rendezvous& rendezvous) { rendezvous.fail(i); });
  };
  threads.run(job);
  if (of_failures == OfFailures::told)  // a run in this one has told its own
    for (std::size_t i = 0; i < seats.size(); ++i) set_failure(i, seats[i].error);
  // For the run around this one, whose replicas are all still there.
  for_each_rendezvous([](Rendezvous& rendezvous) { rendezvous.reset(); });

  const Seat* first = nullptr;
  for (const Seat& seat : seats) {
    if (!seat.error) continue;
    if (first == nullptr || (first->is_consequence && !seat.is_consequence)) first = &seat;
  }
  if (first != nullptr) std::rethrow_exception(first->error);
}

void StrategyState::for_each_replica(std::int64_t bytes, FunctionRef<void(int)> fn) {
  if (bytes >= kThreadedBytes && num_replicas() > 1) {
    run_on_replicas(fn);
  } else {
    for (int i = 0; i < num_replicas(); ++i) fn(i);
  }
}

RecycledVector<RecycledVector<Tensor>> StrategyState::reduce(ReplicaGroup& over, ReduceOp op,
                                                             std::span<const RecycledVector<Tensor>> inputs,
                                                             int root,
                                                             const CommunicationOptions& call_options) {
  const std::vector<Device>& devices = over.devices;
  if (cross_device_ops) return checked_reduce(*cross_device_ops, op, inputs, devices, root);
  const std::size_t n = devices.size();
  const CommunicationOptions merged = call_options.merged_over(options);
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
      all_reduce(over.communicator, op, batches, merged);
    else
      over.communicator.reduce(op, root, batches, merged);
  };
  if (bytes >= kThreadedBytes && n > 1) {
    const auto issue_own = [&](int rank) {
      const OwnedBatch mine = batch(rank);
      issue({&mine.batch(), 1});
    };
    run_on_replicas(issue_own);
  } else {
    RecycledVector<OwnedBatch> owned;
    RecycledVector<RankBatch> batches;
    owned.reserve(n);
    batches.reserve(n);
    for (int rank = 0; rank < num_replicas(); ++rank) owned.push_back(batch(rank));
    for (const OwnedBatch& mine : owned) batches.push_back(mine.batch());
    issue(batches);
  }
  return results;
}

}  // namespace lockstep::detail

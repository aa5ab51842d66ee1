#include "strategy/strategy_state.hpp"

#include <algorithm>
#include <exception>

#include <lockstep/stream.hpp>

#include "collectives/packed_all_reduce.hpp"
#include "collectives/rendezvous.hpp"
#include "detail/numa.hpp"
#include "detail/stack_memory.hpp"

namespace lockstep::detail {

namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

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

std::vector<backend::DeviceBackend*> open_all(std::vector<Device> devices, const Device& parameter_device) {
  devices.push_back(parameter_device);
  std::vector<backend::DeviceBackend*> opened;
  for (const Device& device : devices) opened.push_back(&DeviceManager::instance().open(device));
  return opened;
}

}  // namespace

StrategyState::StrategyState(Strategy& strategy, std::vector<Device> devices_,
                             std::vector<Device> parameter_devices_, const CommunicationOptions& options_)
    : devices(std::move(devices_)),
      parameter_devices(parameter_devices_.empty() ? devices : std::move(parameter_devices_)),
      device_backends(open_all(devices, parameter_devices[0])),
      options(options_.merged_over({})),
      extended(strategy),
      communicator(Communicator::create(devices)),
      communication_streams(devices.size()),
      threads(num_replicas(), [this](int i) {
        const DeviceInfo info = DeviceManager::instance().info(devices[static_cast<std::size_t>(i)]);
        Numa::machine().bind_thread(info.numa_node);
      }) {}

StreamRef StrategyState::communication_stream(int i) {
  const auto index = static_cast<std::size_t>(i);
  if (!communication_streams[index]) communication_streams[index].emplace(devices[index]);
  return *communication_streams[index];
}

std::vector<Device> StrategyState::all_devices() const {
  std::vector<Device> all = devices;
  for (const Device& device : parameter_devices)
    if (std::ranges::find(all, device) == all.end()) all.push_back(device);
  return all;
}

StrategyState::~StrategyState() {
  std::vector<StreamRef> streams;
  for (const std::optional<Stream>& stream : communication_streams)
    if (stream) streams.push_back(*stream);
  for (const Device& device : all_devices()) streams.push_back(current_stream(device));
  for (const StreamRef& stream : streams) {
    try {
      stream.synchronize();
    } catch (const Error&) {  // whoever reads a result is told
    }
  }
}

void StrategyState::run_on_replicas(const std::function<void(int)>& fn,
                                    std::vector<ReplicaFailure>* failures_out) {
  Rendezvous& rendezvous = communicator.rendezvous();
  rendezvous.reset();
  StackMemory memory;
  std::pmr::vector<Seat> seats(memory.resource());
  seats.reserve(devices.size());
  // The calling thread's streams, whose StreamScopes the others do not see.
  const StreamRef parameter_stream = current_stream(*device_backends.back());
  for (int i = 0; i < num_replicas(); ++i)
    seats.push_back({current_stream(*device_backends[static_cast<std::size_t>(i)]), parameter_stream});
  const auto job = [&](int i) {
    Seat& seat = seats[static_cast<std::size_t>(i)];
    const StreamScope parameters(seat.parameter_stream);
    const StreamScope stream(seat.stream);
    try {
      fn(i);
      rendezvous.leave(i);
      return;
    } catch (const Released&) {  // another replica failed, and has said so
      return;
    } catch (const MissingRank&) {
      seat.keep_error(true);
    } catch (const CollectiveAborted&) {  // another replica's failure is why, if there is one
      seat.keep_error(true);
    } catch (...) {
      seat.keep_error(false);
    }
    rendezvous.fail(i);
  };
  threads.run(std::ref(job));
  rendezvous.reset();  // for the run around this one, whose replicas are all still there

  const Seat* first = nullptr;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    const Seat& seat = seats[i];
    if (!seat.error) continue;
    if (failures_out != nullptr)
      failures_out->push_back({static_cast<int>(i), seat.error, message_of(seat.error)});
    if (first == nullptr || (first->is_consequence && !seat.is_consequence)) first = &seat;
  }
  if (first != nullptr) std::rethrow_exception(first->error);
}

void StrategyState::for_each_replica(std::int64_t bytes, const std::function<void(int)>& fn) {
  if (bytes >= kThreadedBytes) {
    run_on_replicas(fn);
  } else {
    for (int i = 0; i < num_replicas(); ++i) fn(i);
  }
}

std::vector<std::vector<Tensor>> StrategyState::reduce(ReduceOp op,
                                                       const std::vector<std::vector<Tensor>>& inputs,
                                                       int root, const CommunicationOptions& call_options) {
  if (cross_device_ops) return cross_device_ops->reduce(op, inputs, devices, root);
  const std::size_t n = devices.size();
  const CommunicationOptions merged = call_options.merged_over(options);
  std::int64_t bytes = 0;
  for (const Tensor& tensor : inputs[0]) bytes += tensor.nbytes();

  std::vector<std::vector<Tensor>> results(n);
  auto batch = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (root < 0 || root == rank) results[r] = empty_results(op, inputs[r], devices[r]);
    return OwnedBatch(rank, current_stream(devices[r]), inputs[r], results[r]);
  };
  auto issue = [&](std::span<const RankBatch> batches) {
    if (root < 0)
      all_reduce(communicator, op, batches, merged);
    else
      communicator.reduce(op, root, batches, merged);
  };
  if (bytes >= kThreadedBytes && n > 1) {
    run_on_replicas([&](int rank) {
      const OwnedBatch mine = batch(rank);
      issue({&mine.batch(), 1});
    });
  } else {
    std::vector<OwnedBatch> owned;
    std::vector<RankBatch> batches;
    owned.reserve(n);
    for (int rank = 0; rank < num_replicas(); ++rank) owned.push_back(batch(rank));
    for (const OwnedBatch& mine : owned) batches.push_back(mine.batch());
    issue(batches);
  }
  return results;
}

}  // namespace lockstep::detail

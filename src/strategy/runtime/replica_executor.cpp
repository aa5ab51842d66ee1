#include "strategy/runtime/replica_executor.hpp"

#include <atomic>
#include <exception>
#include <list>
#include <new>
#include <optional>

#include <lockstep/backend/backend.hpp>
#include <lockstep/backend/device_backend.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/sync_on_read.hpp>

#include "detail/concat.hpp"
#include "detail/numa.hpp"
#include "detail/thread_end.hpp"
#include "detail/warn.hpp"
#include "trace/region.hpp"

namespace lockstep::detail {

namespace {

/// The streams that a replica's thread makes current, and the error that its function ends with: one cache
/// line.
struct alignas(64) ReplicaRecord {
  StreamRef stream, parameter_stream;
  std::exception_ptr error{};
  bool is_consequence = false;

  void keep_error(bool consequence) {
    error = std::current_exception();
    is_consequence = consequence;
  }
};

/// The run waits for functions that may take as long as they like.
void log_timeout(const Strategy& strategy, int replica, const CollectiveTimeout& error) noexcept {
  try {
    warn(concat("run: replica ", replica, "'s function has ended: ", error.what(),
                " The run throws this when the other replicas' functions have returned. ",
                strategy.report()));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

ReplicaExecutor::ReplicaExecutor(const Strategy& strategy, ReplicaGroups& groups,
                                 backend::DeviceBackend* parameter_device)
    : strategy_(strategy),
      groups_(groups),
      parameter_device_(parameter_device),
      threads_(groups.num_local_replicas(), [&groups](int i) {
        ThreadEnd::watch();
        const Device& device = groups.front().devices()[static_cast<std::size_t>(i)];
        try {
          Numa::machine().bind_thread(DeviceManager::instance().info(device).numa_node);
          DeviceManager::instance().open(device).bind_thread();
        } catch (const std::exception&) {  // only advice, which takes the device manager and memory
        }
      }) {}

void ReplicaExecutor::run(FunctionRef<void(int)> fn, RunFailures* failures) {
  groups_.for_each_rendezvous([](Rendezvous& rendezvous) { rendezvous.reset(); });
  RecycledVector<ReplicaRecord> records;
  const auto n = static_cast<std::size_t>(groups_.num_local_replicas());
  records.reserve(n);
  // The other threads do not see the calling thread's guards: streams, logical device, sync_on_read.
  const bool reads_are_synced = sync_on_read::is_active();
  const auto logical_device = static_cast<int>(groups_.current_index());
  const StreamRef parameter_stream = current_stream(
      parameter_device_ != nullptr ? *parameter_device_ : *groups_.current().device_backends().front());
  for (backend::DeviceBackend* const device : groups_.front().device_backends())
    records.push_back({current_stream(*device), parameter_stream});
  RecycledVector<StreamRef> further_streams;  // of further logical devices: [...][n]
  further_streams.reserve((groups_.size() - 1) * n);
  for (std::size_t k = 1; k < groups_.size(); ++k)
    for (backend::DeviceBackend* const device : groups_[k].device_backends())
      further_streams.push_back(current_stream(*device));
  std::atomic<bool> has_timed_out{false};
  const RegionPath region = RegionPath::own();
  const auto job = [&](int i) {
    const auto index = static_cast<std::size_t>(i);
    ReplicaRecord& record = records[index];
    const StreamScope parameters(record.parameter_stream);
    const StreamScope stream(record.stream);
    std::list<StreamScope, RecyclingAllocator<StreamScope>> further;
    std::optional<LogicalDeviceScope> here;
    std::optional<sync_on_read> synced;
    std::optional<RegionScope> named;
    if (i != 0 && region.size != 0) named.emplace(region);
    try {
      for (std::size_t at = index; at < further_streams.size(); at += n)
        further.emplace_front(further_streams[at]);
      if (groups_.size() > 1) here.emplace(strategy_, logical_device);
      if (reads_are_synced) synced.emplace();
      fn(i);
      groups_.for_each_rendezvous([i](Rendezvous& rendezvous) { rendezvous.leave(i); });
      return;
    } catch (const Released&) {
      if (groups_.rendezvous().has_released()) return;  // another replica failed, and its error is kept
      record.error = late_release(groups_.first_replica() + i);
      record.is_consequence = true;
    } catch (const MissingRank&) {
      record.keep_error(true);
    } catch (const CollectiveAborted&) {  // another replica's failure is why, if there is one
      record.keep_error(true);
    } catch (const CollectiveTimeout& error) {
      record.keep_error(false);
      if (failures != nullptr && !has_timed_out.exchange(true))
        log_timeout(strategy_, groups_.first_replica() + i, error);
    } catch (...) {
      record.keep_error(false);
    }
    if (failures != nullptr) failures->set(index, record.error);
    groups_.for_each_rendezvous([i](Rendezvous& rendezvous) { rendezvous.fail(i); });
  };
  threads_.run(job);
  if (failures != nullptr)  // a run within this one has set its own
    for (std::size_t i = 0; i < records.size(); ++i) failures->set(i, records[i].error);
  // For the run around this one, whose replicas are all still there.
  groups_.for_each_rendezvous([](Rendezvous& rendezvous) { rendezvous.reset(); });

  const ReplicaRecord* first = nullptr;
  for (const ReplicaRecord& record : records) {
    if (!record.error) continue;
    if (first == nullptr || (first->is_consequence && !record.is_consequence)) first = &record;
  }
  if (first != nullptr) std::rethrow_exception(first->error);
}

bool ReplicaExecutor::are_worth_threads(std::int64_t bytes) const {
  const std::span<backend::DeviceBackend* const> devices = groups_.front().device_backends();
  if (devices.size() < 2) return false;
  // Each GPU is fed fastest by a thread of its own. Virtual devices of one share it.
  const bool have_queues =
      DeviceManager::instance().backend(devices[0]->device().kind()).capabilities().asynchronous;
  return bytes >= kThreadedBytes || (have_queues && devices[0]->ordinal() != devices[1]->ordinal());
}

void ReplicaExecutor::for_each(std::int64_t bytes, FunctionRef<void(int)> fn) {
  if (are_worth_threads(bytes)) {
    run(fn);
  } else {
    for (int i = 0; i < groups_.num_local_replicas(); ++i) fn(i);
  }
}

}  // namespace lockstep::detail

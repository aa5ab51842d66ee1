#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/buffer.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/detail/recycling_allocator.hpp>

#include "collectives/collective_checks.hpp"
#include "collectives/group_table.hpp"
#include "collectives/rendezvous.hpp"
#include "collectives/watch/device_watch.hpp"
#include "collectives/workers/worker_calls.hpp"
#include "detail/barrier.hpp"
#include "trace/span.hpp"

namespace lockstep {

/// The state of a Communicator: the ranks' calls meet, are checked together, and go to the backend.
///
/// A collective has one meeting. Ranks meet again only where one must have prepared what others read:
/// integers that are averaged, and contributions that are gathered to be combined in rank order.
///
/// Where ranks are in several workers, the local ones meet, and then the thread of the first of them meets
/// the other workers, in the check of the local meeting.
struct Communicator::Impl {
  using Collective = detail::Collective;
  using CollectiveCall = detail::CollectiveCall;

  // A thread uses the scratch of the first rank that it drives.
  struct alignas(2 * 64) Scratch {
    std::vector<CollectiveCall> calls;
    std::vector<detail::Arrival> arrivals;
    std::vector<const CollectiveCall*> driven;  // calls that the thread makes
    std::vector<backend::RankCall> rank_calls;
    detail::GroupTable group;          // of fingerprints
    std::vector<const void*> sources;  // of short messages
    std::vector<void*> destinations;
  };

  /// Ranks that are all in this process.
  Impl(const std::vector<Device>& members, std::vector<backend::DeviceBackend*> opened,
       std::unique_ptr<backend::CommunicatorBackend> made, std::string_view member_)
      : Impl(members, std::move(opened), std::move(made), member_, 0, static_cast<int>(members.size())) {}
  /// Ranks of several workers. @param opened  by rank; null for the other workers'. @param meeting  outlives
  /// this.
  Impl(const std::vector<Device>& members, std::vector<backend::DeviceBackend*> opened,
       std::unique_ptr<backend::CommunicatorBackend> made, std::string_view member_,
       backend::ProcessRanks ranks, detail::WorkerMeeting& meeting)
      : Impl(members, std::move(opened), std::move(made), member_, ranks.own_begin(),
             ranks.own_end() - ranks.own_begin()) {
    workers.emplace(std::move(ranks), devices, meeting, rendezvous.calls());
  }

  static std::vector<std::string> labels(const std::vector<Device>& devices, std::string_view member,
                                         int first_rank, int num_local_ranks);
  std::size_t local(int rank) const { return static_cast<std::size_t>(rank - first_rank); }
  Scratch& scratch_of(const RankBatch& batch) { return scratch[local(batch.rank)]; }
  int num_ranks() const { return static_cast<int>(devices.size()); }
  std::size_t num_local_ranks() const { return scratch.size(); }

  void warn_if_without_gpus(const CommunicationOptions& options);
  std::unique_lock<detail::Mutex> lock_if_all(std::span<const RankBatch> batches);
  void check(Collective collective, ReduceOp op, std::span<const RankBatch> batches,
             const CommunicationOptions& options);
  void run(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
           const CommunicationOptions& options, std::span<const int> destinations = {});
  void run_all(Collective collective, ReduceOp op, int root, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, std::span<const StreamRef> streams,
               const CommunicationOptions& options, std::span<const int> destinations = {});
  /// The ranks of the batches, counted among those of this process. @throws InvalidArgument  none, out of
  /// range, or one twice.
  detail::RecycledVector<int> ranks_of(std::string_view operation, std::span<const RankBatch> batches) const;
  /// Sets the calls and their arrivals in the scratch of the first of the ranks.
  Scratch& make_calls(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
                      const CommunicationOptions& merged, std::span<const int> destinations,
                      bool only_checks);
  void run_locked(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
                  const CommunicationOptions& options, std::span<const int> destinations);
  void meet(std::span<const int> ranks, std::span<const detail::Arrival> arrivals,
            const detail::Rendezvous::Check& check, std::chrono::milliseconds timeout);
  /// Tells those who listen to a call of some ranks what belongs together, and by which path it goes.
  void describe(detail::Span& span, Collective collective, ReduceOp op, std::span<const RankBatch> batches,
                const CommunicationOptions& merged);
  void reduce_messages(ReduceOp op, std::span<const RankBatch> batches);
  /// Calls fn. @throws PeerLost  in place of another error, once a worker is lost.
  template <class F>
  void or_lost(std::string_view operation, const F& fn) {
    if (!workers) return fn();
    try {
      fn();
    } catch (const CollectiveError&) {
      workers->throw_if_lost(operation);
      throw;
    }
  }
  /// In the check of the local ranks' meeting: meets the other workers, and checks all ranks' calls.
  /// @return whether it did what is to be done: a short reduction.
  bool meet_workers(std::span<const detail::Arrival* const> local_ranks, std::chrono::milliseconds timeout);
  void reduce_with_workers(std::span<const detail::Arrival* const> local_ranks);
  /// Makes the calls of some ranks, or of all, to the backend. @param calls  not empty.
  void start(const detail::Rendezvous::RankLock& rank_lock, std::span<const CollectiveCall* const> calls,
             detail::GroupTable& table, std::chrono::milliseconds timeout);
  void convert(const CollectiveCall& call, detail::GroupTable& table, std::vector<Buffer>& temporaries);
  /// Returns when the threads of all ranks have prepared their parts. @throws CollectiveAborted
  void meet_again(const detail::Rendezvous::RankLock& rank_lock, const backend::GroupCall& group_call);
  /// Whether contributions are gathered, to be combined in rank order.
  bool is_in_rank_order(const CollectiveCall& call) const;

  // watch/communicator_watch.cpp
  /// Around enqueueing the calls: they have a time limit on the devices, too. 0: none.
  void begin_watch(std::span<const CollectiveCall* const> calls, std::chrono::milliseconds timeout);
  void end_watch(std::span<const CollectiveCall* const> calls, std::chrono::milliseconds timeout);
  /// A call has exceeded its time limit on a device.
  void give_up(const std::string& text);
  void watch_devices();

  // communicator_plan.cpp
  static backend::Route route_of(const CommunicationOptions& options);
  /// Whether the input of an all_reduce of one tensor comes with its rank's meeting, so that each thread, or
  /// each worker, combines what is there.
  bool comes_with_meeting(std::int64_t size_bytes, bool one_thread) const;
  CommunicationPlan plan(ReduceOp op, std::span<const TensorView> batch, const backend::Route& route,
                         bool one_thread) const;
  /// The backend's of one element.
  CommunicationPlan plan_of_one(ReduceOp op, DType dtype, const backend::Route& route) const;
  /// After an all_reduce's meeting: logs its plan, if that is asked for and new.
  void log_plan(ReduceOp op, std::span<const RankBatch> batches, const CommunicationOptions& options);
  static bool wants_plans();

  /// Sets `gathered`: what each rank contributes.
  void set_gathered(std::span<const detail::Arrival* const> all);
  void enqueue(Collective collective, const backend::GroupCall& group_call);
  void enqueue_in_rank_order(const detail::Rendezvous::RankLock& rank_lock, Collective collective,
                             const backend::GroupCall& group_call);
  void abort(const std::string& cause) noexcept {
    if (workers) workers->break_off(cause);
    rendezvous.abort(cause);
    prepared.fail();
    backend->abort();
  }

  const int first_rank;  // of this process
  const std::vector<Device> devices;
  const std::vector<backend::DeviceBackend*> device_backends;
  const std::unique_ptr<backend::CommunicatorBackend> backend;
  const std::string_view member;
  detail::Rendezvous rendezvous;  // of the local ranks
  std::optional<detail::WorkerCalls> workers;
  detail::CollectiveChecks checks;
  detail::Barrier prepared;
  // The collective under way. The check of a meeting sets it: all ranks have returned from the last
  // collective then.
  detail::GroupTable group;
  detail::GroupTable gathered;  // of contributions that are to be combined in rank order
  // Every rank looks at every other's fingerprint, and compares its memory with that of each.
  static constexpr int kMaxRanksOfFingerprints = 16;
  const bool takes_fingerprints;
  const bool one_enqueues;
  // Longer inputs do not come with the meeting.
  static constexpr std::int64_t kMaxMessageBytes = 4096;
  bool reduced_with_workers = false;  // the collective under way, by the check
  std::vector<Scratch> scratch;       // of the local ranks
  std::vector<std::byte> message;     // of the local ranks, for the other workers
  std::vector<std::byte> messages;    // of all ranks, aligned
  std::atomic<bool> has_warned{false};
  const bool logs_plans = wants_plans();
  std::vector<CommunicationPlan> logged_plans;  // of the thread of the first local rank

  detail::Mutex mutex{"a communicator"};  // held by calls that name all ranks; guards the rest
  std::vector<RankBatch> all_batches;

  std::optional<detail::DeviceWatch> watch;  // of devices that work by themselves; goes first

 private:
  Impl(const std::vector<Device>& members, std::vector<backend::DeviceBackend*> opened,
       std::unique_ptr<backend::CommunicatorBackend> made, std::string_view member_, int first, int num_local)
      : first_rank(first),
        devices(members),
        device_backends(std::move(opened)),
        backend(std::move(made)),
        member(member_),
        rendezvous(labels(members, member, first, num_local), member),
        checks(devices, device_backends, member),
        prepared(num_local),
        takes_fingerprints(num_local == num_ranks() && backend->shares_memory() &&
                           num_ranks() <= kMaxRanksOfFingerprints),
        one_enqueues(backend->enqueues_for_all()),
        scratch(static_cast<std::size_t>(num_local)) {
    watch_devices();
  }
};

}  // namespace lockstep

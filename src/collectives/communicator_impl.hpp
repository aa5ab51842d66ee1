#pragma once

#include <atomic>
#include <memory>
#include <mutex>
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
#include "detail/barrier.hpp"

namespace lockstep {

/// The state of a Communicator: the ranks' calls meet, are checked together, and go to the backend.
///
/// A collective has one meeting. Ranks meet again only where one must have prepared what others read:
/// integers that are averaged, and contributions that are gathered to be combined in rank order.
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

  Impl(const std::vector<Device>& members, std::vector<backend::DeviceBackend*> opened,
       std::unique_ptr<backend::CommunicatorBackend> made, std::string_view member_)
      : devices(members),
        device_backends(std::move(opened)),
        backend(std::move(made)),
        member(member_),
        rendezvous(labels(members, member), member),
        checks(devices, device_backends, member),
        prepared(num_ranks()),
        takes_fingerprints(backend->shares_memory() && num_ranks() <= kMaxRanksOfFingerprints),
        one_enqueues(backend->enqueues_for_all()),
        scratch(members.size()) {}

  static std::vector<std::string> labels(const std::vector<Device>& devices, std::string_view member);
  Scratch& scratch_of(const RankBatch& batch) { return scratch[static_cast<std::size_t>(batch.rank)]; }
  int num_ranks() const { return static_cast<int>(devices.size()); }

  void warn_if_without_gpus(const CommunicationOptions& options);
  std::unique_lock<detail::Mutex> lock_if_all(std::span<const RankBatch> batches);
  void check(Collective collective, ReduceOp op, std::span<const RankBatch> batches,
             const CommunicationOptions& options);
  void run(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
           const CommunicationOptions& options, std::span<const int> destinations = {});
  void run_all(Collective collective, ReduceOp op, int root, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, std::span<const StreamRef> streams,
               const CommunicationOptions& options, std::span<const int> destinations = {});
  /// The ranks of the batches. @throws InvalidArgument  none, out of range, or one twice.
  detail::RecycledVector<int> ranks_of(std::string_view operation, std::span<const RankBatch> batches) const;
  /// Sets the calls and their arrivals in the scratch of the first of the ranks.
  Scratch& make_calls(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
                      const CommunicationOptions& merged, std::span<const int> destinations,
                      bool only_checks);
  void run_locked(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
                  const CommunicationOptions& options, std::span<const int> destinations);
  void reduce_messages(ReduceOp op, std::span<const RankBatch> batches);
  /// Makes the calls of some ranks, or of all, to the backend. @param calls  not empty.
  void start(const detail::Rendezvous::RankLock& rank_lock, std::span<const CollectiveCall* const> calls,
             detail::GroupTable& table);
  void convert(const CollectiveCall& call, detail::GroupTable& table, std::vector<Buffer>& temporaries);
  /// Returns when the threads of all ranks have prepared their parts. @throws CollectiveAborted
  void meet_again(const detail::Rendezvous::RankLock& rank_lock, const backend::GroupCall& group_call);
  bool is_in_rank_order(const CollectiveCall& call) const {
    return call.reduces() && call.deterministic && !backend->combines_in_rank_order();
  }
  void enqueue(Collective collective, const backend::GroupCall& group_call);
  void enqueue_in_rank_order(const detail::Rendezvous::RankLock& rank_lock, Collective collective,
                             const backend::GroupCall& group_call);
  void abort(const std::string& cause) noexcept {
    rendezvous.abort(cause);
    prepared.fail();
    backend->abort();
  }

  const std::vector<Device> devices;
  const std::vector<backend::DeviceBackend*> device_backends;
  const std::unique_ptr<backend::CommunicatorBackend> backend;
  const std::string_view member;
  detail::Rendezvous rendezvous;
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
  std::vector<Scratch> scratch;
  std::atomic<bool> has_warned{false};

  detail::Mutex mutex{"a communicator"};  // held by calls that name all ranks; guards the rest
  std::vector<RankBatch> all_batches;
};

}  // namespace lockstep

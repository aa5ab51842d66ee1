#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <lockstep/buffer.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/detail/recycling_allocator.hpp>

#include "collectives/collective_checks.hpp"
#include "collectives/rendezvous.hpp"

namespace lockstep {

/// What a Communicator does: the ranks' calls meet, are checked together, and go to the backend.
struct Communicator::Impl {
  using Collective = detail::Collective;
  using CollectiveCall = detail::CollectiveCall;

  // A thread uses that of the first rank it drives, and `segments` of each.
  struct alignas(2 * 64) Scratch {
    std::vector<CollectiveCall> calls;
    std::vector<detail::Arrival> arrivals;
    std::vector<backend::RankCall> rank_calls;
    std::vector<backend::Segment> segments;
    std::vector<const void*> sources;  // of short messages
    std::vector<void*> destinations;
  };

  Impl(const std::vector<Device>& group, std::vector<backend::DeviceBackend*> opened,
       std::unique_ptr<backend::CommunicatorBackend> made, std::string_view member_)
      : devices(group),
        device_backends(std::move(opened)),
        backend(std::move(made)),
        member(member_),
        rendezvous(labels(group, member), member),
        checks(devices, device_backends, member),
        takes_messages(backend->shares_memory() && num_ranks() <= kMaxRanksOfMessages),
        scratch(group.size()) {}

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
  bool meet(const detail::Rendezvous::Turn& turn, Collective collective, ReduceOp op, int root,
            std::span<const RankBatch> batches, const CommunicationOptions& options,
            std::span<const int> destinations, bool only_checks);
  void reduce_messages(ReduceOp op, std::span<const RankBatch> batches);
  void run_locked(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
                  const CommunicationOptions& options, std::span<const int> destinations);
  void make_segments(const CollectiveCall& call, std::vector<Buffer>& temporaries);
  void enqueue(Collective collective, ReduceOp op, int root, std::span<const backend::RankCall> calls);
  void enqueue_in_rank_order(Collective collective, ReduceOp op, int root,
                             std::span<const backend::RankCall> calls);
  void abort(const std::string& cause) noexcept {
    rendezvous.abort(cause);
    backend->abort();
  }

  const std::vector<Device> devices;
  const std::vector<backend::DeviceBackend*> device_backends;
  const std::unique_ptr<backend::CommunicatorBackend> backend;
  const std::string_view member;
  detail::Rendezvous rendezvous;
  detail::CollectiveChecks checks;
  std::vector<backend::Transfer> transfers;  // of the collective under way; set where all ranks meet
  // Every rank looks at every other's message, and compares its memory with that of each.
  static constexpr int kMaxRanksOfMessages = 16;
  const bool takes_messages;
  std::vector<Scratch> scratch;
  std::atomic<bool> has_warned{false};

  detail::Mutex mutex{"a communicator"};  // held by calls that name all ranks; guards what follows
  std::vector<RankBatch> all_batches;
};

}  // namespace lockstep

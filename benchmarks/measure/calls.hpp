#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/graph_backend.hpp>

#include "collectives/collective.hpp"
#include "measure/replica.hpp"
#include "options/options.hpp"

namespace lockstep::bench {

/// One measurement. Operation i works on slot i % num_slots of the buffers, so that small sizes do not stay
/// in a cache.
struct Layout {
  DataCase data;
  Counts counts;
  int root = 0;
  PlacementKind placement = PlacementKind::out_of_place;
  std::int64_t slot_bytes = 0;
  std::int64_t num_slots = 1;

  std::int64_t slot_offset(std::int64_t operation) const { return operation % num_slots * slot_bytes; }
  std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(data.dtype)); }
  /// The rank's buffers in slot 0.
  std::byte* send_buffer(const RankBuffers& rank) const {
    if (placement == PlacementKind::out_of_place) return rank.send;
    return rank.receive + rank.rank_in_group * counts.in_place_send_step * element_bytes();
  }
  std::byte* receive_buffer(const RankBuffers& rank) const {
    if (placement == PlacementKind::out_of_place) return rank.receive;
    return rank.receive + rank.rank_in_group * counts.in_place_receive_step * element_bytes();
  }
};

/// The calls that one thread makes for the ranks that it drives. They are prepared first, so that `run`
/// allocates nothing.
class Calls {
 public:
  /// @param replicas  the ranks that the thread drives; they and the groups must outlive this.
  Calls(const Collective& collective, std::vector<Group>& groups, std::span<const Replica> replicas,
        const Options& options, const Layout& layout);
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  /// Runs operations [first, first + count), in batches, which cannot use a slot twice.
  void run(std::int64_t first, int count);
  /// Waits for the ranks' streams.
  void synchronize() const;

 private:
  struct Rank {
    const Replica* replica;
    std::vector<TensorView> inputs, outputs;  // empty where the rank only receives, or only sends
  };
  struct GroupCall {
    Group* group;
    std::vector<Rank> ranks;
    std::vector<RankBatch> batches;
  };

  const Collective& collective_;
  Layout layout_;
  CommunicationOptions communication_;
  std::size_t batch_size_;
  // Sorted by colour in every thread, so that no thread waits in one group's call for a thread that waits in
  // another's.
  std::vector<GroupCall> calls_;
};

/// What the threads of this process enqueue on their ranks' streams, captured to be launched again: a graph
/// for each GPU (-G). One thread begins and ends the capture, while the others wait; in between all enqueue.
class CapturedCalls {
 public:
  /// Begins the capture. @param replicas  of this process; they outlive this.
  explicit CapturedCalls(std::span<const Replica> replicas);
  /// Drops a capture that has not ended. @pre on the thread that began it
  ~CapturedCalls();
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;

  void end();
  /// Launches the graphs of these replicas, which one thread drives.
  void launch(std::span<const Replica> replicas) const;

 private:
  struct Gpu {
    int hardware;
    std::vector<const Replica*>
        replicas;  // several, if they are virtual devices; the first one's stream leads
    std::unique_ptr<backend::Graph> graph{};
  };
  std::vector<Gpu> gpus_;
  bool is_capturing_ = false;
};

}  // namespace lockstep::bench

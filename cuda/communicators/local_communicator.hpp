#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>

#include "device/cuda_device.hpp"
#include "kernels/launch.hpp"
#include "kernels/multi/multi.hpp"

namespace lockstep::cuda {

/// Collectives of virtual devices of one GPU. A collective is one kernel for a hundred or so tensors of a
/// batch, which reads all sources and writes all destinations once, in rank order. It runs on rank 0's
/// stream, which waits for the other ranks' streams, and they for it, by events. One call enqueues for all
/// ranks.
class LocalCommunicator final : public backend::CommunicatorBackend {
 public:
  /// @throws Unsupported  more ranks than a kernel takes.
  explicit LocalCommunicator(std::vector<CudaDevice*> ranks);
  ~LocalCommunicator() override;

  int num_ranks() const override { return static_cast<int>(ranks_.size()); }
  CommunicationPlan plan(ReduceOp op, std::span<const backend::Segment> batch,
                         const backend::Route& route) const override;
  bool enqueues_for_all() const override { return true; }
  void all_reduce(const backend::GroupCall& group) override;
  void reduce(const backend::GroupCall& group) override;
  void broadcast(const backend::GroupCall& group) override;
  void all_gather(const backend::GroupCall& group) override;
  void reduce_scatter(const backend::GroupCall& group) override;
  void transfer(const backend::GroupCall& group) override;

 private:
  LocalCommunicator() = default;

  struct Rank {
    CudaDevice* device;
    backend::EventHandle ready;  // the rank's stream has come to the call
  };

  const Rank& rank_of(const backend::RankCall& call) const {
    return ranks_[static_cast<std::size_t>(call.rank)];
  }
  /// Calls `work(place)`, for rank 0's stream, between the streams' events.
  template <class Work>
  void run(const backend::GroupCall& group, const Work& work);
  /// Empties the lists below. @param num_items  with the sources and destinations of all ranks.
  void begin_list(std::size_t num_items);
  /// Where segment s of every rank begins, `offset_bytes` on.
  std::span<const void* const> sources(const backend::GroupCall& group, std::size_t s,
                                       std::int64_t offset_bytes = 0);
  /// Where it is received, except at null and `but`.
  std::span<void* const> destinations(const backend::GroupCall& group, std::size_t s,
                                      std::int64_t offset_bytes = 0, const void* but = nullptr);
  /// A reduction whose `list(s)` lists segment s's combinations, `items_per_segment` at most.
  template <class List>
  void combine_segments(const backend::GroupCall& group, std::size_t items_per_segment, const List& list);

  std::vector<Rank> ranks_;
  backend::EventHandle done_{};  // the kernels of the call
  // Of one launch, or a few. All scratch.
  std::vector<Combination> combinations_;
  std::vector<Spread> spreads_;
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
};

}  // namespace lockstep::cuda

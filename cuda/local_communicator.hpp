#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>

#include "cuda_device.hpp"
#include "detail/barrier.hpp"
#include "kernels/launch.hpp"

namespace lockstep::cuda {

/// Collectives of virtual devices of one GPU: each is one kernel for each tensor, on rank 0's stream, that
/// reads all sources and writes all destinations once, in rank order; or one copy for each transfer. The
/// other ranks' streams wait for it, and it for them, by events.
///
/// The thread that drives rank 0 enqueues when all calls are known; the others return when it has.
class LocalCommunicator final : public backend::CommunicatorBackend {
 public:
  /// @throws Unsupported  more ranks than a kernel takes.
  explicit LocalCommunicator(std::vector<CudaDevice*> ranks);
  ~LocalCommunicator() override;

  int num_ranks() const override { return static_cast<int>(ranks_.size()); }
  void all_reduce(std::span<const backend::RankCall> calls, ReduceOp op) override;
  void reduce(std::span<const backend::RankCall> calls, ReduceOp op, int root) override;
  void broadcast(std::span<const backend::RankCall> calls, int root) override;
  void all_gather(std::span<const backend::RankCall> calls) override;
  void reduce_scatter(std::span<const backend::RankCall> calls, ReduceOp op) override;
  void transfer(std::string_view operation, std::span<const backend::RankCall> calls,
                std::span<const backend::Transfer> transfers) override;
  void abort() noexcept override { published_.fail(); }

 private:
  struct Rank {
    CudaDevice* device;
    backend::EventHandle ready;               // its stream has come to the call
    const backend::RankCall* call = nullptr;  // of the collective under way
  };

  /// Calls `work(place)` on the thread that drives rank 0, between the streams' events.
  template <class Work>
  void run(std::string_view operation, std::span<const backend::RankCall> calls, const Work& work);
  void publish(std::string_view operation, std::span<const backend::RankCall> calls);
  std::span<const backend::Segment> segments(std::size_t rank) const { return ranks_[rank].call->segments; }
  /// Where segment s of every rank begins, `offset_bytes` on.
  std::vector<const void*>& sources(std::size_t s, std::int64_t offset_bytes = 0);
  /// Where it is received, except at null and `but`.
  std::vector<void*>& destinations(std::size_t s, std::int64_t offset_bytes = 0, const void* but = nullptr);

  std::vector<Rank> ranks_;
  backend::EventHandle done_;  // the kernels of the call
  detail::Barrier published_;
  detail::Barrier finished_;  // never fails: the calls that rank 0's thread reads must stay until it is done
  std::string failure_;       // why rank 0's thread could not enqueue; written before `finished_`
  std::vector<const void*> sources_;  // scratch of rank 0's thread
  std::vector<void*> destinations_;
};

}  // namespace lockstep::cuda

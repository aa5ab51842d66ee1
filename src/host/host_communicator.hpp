#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>

#include "detail/barrier.hpp"

namespace lockstep::host {

/// Collectives in shared memory, on the threads that call them.
///
/// Each rank's thread takes its slice of the batch, reads it from all sources and writes it to all
/// destinations: n·S bytes read and n·S written, the least there can be for separate buffers, where a ring
/// moves 5(n-1)·S. No element of a result is computed twice, so all ranks receive the same bits. Two barriers
/// frame the work: all buffers are known, all slices are done. A thread that names all ranks waits for
/// nobody.
class HostCommunicator final : public backend::CommunicatorBackend {
 public:
  explicit HostCommunicator(int num_ranks);

  int num_ranks() const override { return static_cast<int>(ranks_.size()); }
  void all_reduce(std::span<const backend::RankCall> calls, ReduceOp op) override;
  void reduce(std::span<const backend::RankCall> calls, ReduceOp op, int root) override;
  void broadcast(std::span<const backend::RankCall> calls, int root) override;
  void all_gather(std::span<const backend::RankCall> calls) override;
  void reduce_scatter(std::span<const backend::RankCall> calls, ReduceOp op) override;
  void abort() noexcept override { published_.fail(); }

 private:
  struct alignas(64) Rank {
    const backend::RankCall* call =
        nullptr;  // of the collective under way; read by all threads between the barriers
    std::vector<const void*> sources;  // scratch of the thread that does this rank's slice
    std::vector<void*> destinations;
  };

  /// Calls `work(rank)` for the ranks that this thread drives, when the calls of all ranks are known, and
  /// returns when all ranks' work is done. @throws CollectiveAborted
  template <class Work>
  void run(std::string_view operation, std::span<const backend::RankCall> calls, const Work& work) {
    publish(operation, calls);
    for (const backend::RankCall& call : calls) work(call.rank);
    finish(calls);
  }
  void publish(std::string_view operation, std::span<const backend::RankCall> calls);
  void finish(std::span<const backend::RankCall> calls);

  std::span<const backend::Segment> segments(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].call->segments;
  }
  /// The scratch of `rank`: where the elements [begin, …) of segment s are read and written, on every rank.
  void locate(int rank, std::size_t s, std::int64_t begin_bytes);

  std::vector<Rank> ranks_;
  detail::Barrier published_;
  // Never fails, whatever `abort` does: nobody may go while another thread reads from its buffers or writes
  // to them.
  detail::Barrier finished_;
};

std::unique_ptr<backend::CommunicatorBackend> make_host_communicator(int num_ranks);

}  // namespace lockstep::host

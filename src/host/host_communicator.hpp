#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>

#include "detail/barrier.hpp"
#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"

namespace lockstep::host {

/// Collectives in shared memory, on the threads that call them.
///
/// Each rank's thread takes its slice of the batch, reads it from all sources and writes it to all
/// destinations: n·S bytes read and n·S written, the least there can be for separate buffers, where a ring
/// moves 5(n-1)·S. No element of a result is computed twice, so all ranks receive the same bits. A thread
/// that is through with its slice takes over chunks of others: one that has lost its core holds up nobody.
/// Two barriers frame the work: all buffers are known, all slices are done. A thread that names all ranks
/// waits for nobody.
class HostCommunicator final : public backend::CommunicatorBackend {
 public:
  explicit HostCommunicator(int num_ranks);

  int num_ranks() const override { return static_cast<int>(ranks_.size()); }
  bool shares_memory() const override { return true; }
  void reduce_here(ReduceOp op, DType dtype, std::int64_t count, std::span<const void* const> sources,
                   std::span<void* const> destinations) override {
    reduce_range(op, dtype, count, sources, destinations, /*streaming=*/false);
  }
  void all_reduce(std::span<const backend::RankCall> calls, ReduceOp op) override;
  void reduce(std::span<const backend::RankCall> calls, ReduceOp op, int root) override;
  void broadcast(std::span<const backend::RankCall> calls, int root) override;
  void all_gather(std::span<const backend::RankCall> calls) override;
  void reduce_scatter(std::span<const backend::RankCall> calls, ReduceOp op) override;
  void transfer(std::string_view operation, std::span<const backend::RankCall> calls,
                std::span<const backend::Transfer> transfers) override;
  void abort() noexcept override { published_.fail(); }

 private:
  struct alignas(64) Rank {
    // Of the collective under way; read by all threads between the barriers.
    const backend::RankCall* call = nullptr;
    std::vector<const void*> sources;  // scratch of this rank's thread
    std::vector<void*> destinations;
    alignas(64) std::atomic<std::int64_t> next_chunk{0};  // of its slice: the first that nobody has taken
  };

  /// Returns when the calls of all ranks are known. @throws CollectiveAborted
  void publish(std::string_view operation, std::span<const backend::RankCall> calls);
  /// Calls `work(piece, begin_bytes, end_bytes)` for what this thread does of the pieces: the slices of its
  /// ranks, and what others have not begun.
  template <class BytesOf, class Work>
  void share(std::span<const backend::RankCall> calls, std::size_t num_pieces, const BytesOf& bytes_of,
             const Work& work) {
    const Slices slices(num_pieces, bytes_of, num_ranks());
    const auto work_on = [&](int rank) {
      std::atomic<std::int64_t>& next = ranks_[static_cast<std::size_t>(rank)].next_chunk;
      while (next.load(std::memory_order_relaxed) < slices.chunks_per_slice()) {
        const std::int64_t chunk = next.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= slices.chunks_per_slice()) return;
        slices.for_each_part(num_pieces, bytes_of, rank, chunk, work);
      }
    };
    for (const backend::RankCall& call : calls) work_on(call.rank);
    // Looking at another rank costs about as much as the smallest slices take.
    if (slices.chunks_per_slice() == 1) return;
    for (int i = 1; i < num_ranks(); ++i) work_on((calls.back().rank + i) % num_ranks());
  }
  /// Returns when all ranks' work is done.
  void finish(std::span<const backend::RankCall> calls);

  std::span<const backend::Segment> segments(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].call->segments;
  }
  /// Sets and returns the scratch of `rank`: where segment s is read and written from `begin_bytes` on, on
  /// every rank.
  const Rank& locate(int rank, std::size_t s, std::int64_t begin_bytes);

  std::vector<Rank> ranks_;
  detail::Barrier published_;
  // Never fails, whatever `abort` does: nobody may go while another thread reads from its buffers or writes
  // to them.
  detail::Barrier finished_;
};

std::unique_ptr<backend::CommunicatorBackend> make_host_communicator(int num_ranks);

}  // namespace lockstep::host

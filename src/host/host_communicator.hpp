#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>

#include "detail/parking.hpp"
#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slice_progress.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"

namespace lockstep::host {

/// Collectives in shared memory, on the threads that call them.
///
/// Each rank's thread takes its slice of the batch, reads it from all sources and writes it to all
/// destinations: n·S bytes read and n·S written, the least there can be for separate buffers, where a ring
/// moves 5(n-1)·S. No element of a result is computed twice, so all ranks receive the same bits. A thread
/// that is through with its slice takes over what others have not begun: one that has lost its core holds up
/// nobody. A call returns when all slices are done, whether or not every thread has come: one that comes
/// later finds nothing to do, and touches no rank's memory.
class HostCommunicator final : public backend::CommunicatorBackend {
 public:
  explicit HostCommunicator(int num_ranks);

  int num_ranks() const override { return static_cast<int>(ranks_.size()); }
  bool shares_memory() const override { return true; }
  void reduce_here(ReduceOp op, DType dtype, std::int64_t count, std::span<const void* const> sources,
                   std::span<void* const> destinations) override {
    reduce_range(op, dtype, count, sources, destinations, /*streaming=*/false);
  }
  void all_reduce(const backend::GroupCall& group) override;
  void reduce(const backend::GroupCall& group) override;
  void broadcast(const backend::GroupCall& group) override;
  void all_gather(const backend::GroupCall& group) override;
  void reduce_scatter(const backend::GroupCall& group) override;
  void transfer(const backend::GroupCall& group) override;

 private:
  struct alignas(64) Rank {
    std::uint64_t num_collectives = 0;  // of its thread's
    std::vector<const void*> sources;   // scratch of its thread
    std::vector<void*> destinations;
    SliceProgress progress;
  };

  /// Calls `work(piece, begin_bytes, end_bytes)` for what this thread does of the pieces: the slices of its
  /// ranks, and what others have not begun. Returns when all of it is done.
  template <class BytesOf, class Work>
  void share(const backend::GroupCall& group, std::size_t num_pieces, const BytesOf& bytes_of,
             const Work& work) {
    const Slices slices(num_pieces, bytes_of, num_ranks());
    const std::int64_t num_chunks = slices.chunks_per_slice();
    const std::uint64_t collective = begin(group);
    const auto work_on = [&](int rank) {
      if (rank >= slices.num_slices()) return;
      SliceProgress& progress = progress_of(rank);
      for (std::int64_t chunk = progress.take(collective, num_chunks); chunk >= 0;
           chunk = progress.take(collective, num_chunks)) {
        slices.for_each_part(num_pieces, bytes_of, rank, chunk, work);
        end_streaming();
        progress.add_done(collective, num_chunks);
      }
    };
    for (const backend::RankCall& call : group.own) work_on(call.rank);
    if (group.is_whole()) return;

    int next = 0;  // all slices before it are done
    const auto all_are_done = [&] {
      while (next < slices.num_slices() && progress_of(next).is_done(collective, num_chunks)) ++next;
      return next == slices.num_slices();
    };
    const std::uint64_t num_threads = ranks_.size() / group.own.size();
    // Who is about to begin a short slice has it in its core's cache.
    const bool is_patient = num_chunks == 1 && detail::Parking::has_cores_for(num_threads);
    if (!is_patient || !detail::Parking::spin(all_are_done, kPatience)) {
      for (int i = 1; i < num_ranks(); ++i) work_on((group.own.back().rank + i) % num_ranks());
      parking_.wait(num_threads, all_are_done);
    }
    detail::full_fence();
    parking_.wake();
  }
  /// Of the thread's ranks; the same on every thread. @return the number of the collective.
  std::uint64_t begin(const backend::GroupCall& group);
  SliceProgress& progress_of(int rank) { return ranks_[static_cast<std::size_t>(rank)].progress; }
  /// Sets and returns the scratch of the first own rank: where segment s is read and written from
  /// `begin_bytes` on, on every rank.
  const Rank& locate(const backend::GroupCall& group, std::size_t s, std::int64_t begin_bytes);

  // Longer than threads that leave a meeting together are apart, shorter than one is away without a core.
  static constexpr std::chrono::microseconds kPatience{5};

  std::vector<Rank> ranks_;
  detail::Parking parking_;  // of threads whose own work is done
};

std::unique_ptr<backend::CommunicatorBackend> make_host_communicator(int num_ranks);

}  // namespace lockstep::host

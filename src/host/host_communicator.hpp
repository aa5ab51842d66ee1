#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>

#include "detail/parking.hpp"
#include "host/collectives/slice_progress.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/memory_communicator.hpp"

namespace lockstep::host {

/// Collectives in shared memory, on the threads that call them.
///
/// Each rank's thread takes its slice of the batch, reads it from all sources and writes it to all
/// destinations. This reads n·S bytes and writes n·S, the minimum for separate buffers; a ring moves
/// 5(n-1)·S. No element of a result is computed twice, so all ranks receive the same bits. A thread that has
/// finished its slice takes over chunks that others have not begun, so a thread that has lost its core delays
/// no other. A call returns when all slices are done, whether or not every thread has arrived; a late thread
/// finds nothing to do, and touches no rank's memory.
class HostCommunicator final : public MemoryCommunicator {
 public:
  explicit HostCommunicator(int num_ranks);

  int num_ranks() const override { return static_cast<int>(ranks_.size()); }
  void all_reduce(const backend::GroupCall& group) override;
  void reduce(const backend::GroupCall& group) override;
  void broadcast(const backend::GroupCall& group) override;
  void all_gather(const backend::GroupCall& group) override;
  void reduce_scatter(const backend::GroupCall& group) override;
  void transfer(const backend::GroupCall& group) override;

 protected:
  CommunicationPath path() const noexcept override { return CommunicationPath::shared_memory; }

 private:
  struct alignas(64) Rank {
    std::uint64_t num_collectives = 0;  // collectives of the rank's thread
    std::vector<const void*> sources;   // scratch of the rank's thread
    std::vector<void*> destinations;
    SliceProgress progress;
  };

  /// Calls `work(piece, begin_bytes, end_bytes)` for this thread's part of the pieces: the slices of its
  /// ranks, and chunks that other threads have not begun. Returns when all slices are done.
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

    int next = 0;  // all slices before this one are done
    const auto all_are_done = [&] {
      while (next < slices.num_slices() && progress_of(next).is_done(collective, num_chunks)) ++next;
      return next == slices.num_slices();
    };
    const std::uint64_t num_threads = ranks_.size() / group.own.size();
    // The thread that is about to begin a short slice has its data in its core's cache.
    const bool is_patient = num_chunks == 1 && detail::Parking::has_cores_for(num_threads);
    if (!is_patient || !detail::Parking::spin(all_are_done, kPatience)) {
      for (int i = 1; i < num_ranks(); ++i) work_on((group.own.back().rank + i) % num_ranks());
      parking_.wait(num_threads, all_are_done);
    }
    detail::full_fence();
    parking_.wake();
  }
  /// Begins a collective for the thread's ranks. @return the collective's number, the same on every thread.
  std::uint64_t begin(const backend::GroupCall& group);
  SliceProgress& progress_of(int rank) { return ranks_[static_cast<std::size_t>(rank)].progress; }
  /// Sets and returns the scratch of the first own rank: for every rank, the addresses at which segment s is
  /// read and written from `begin_bytes` on.
  const Rank& locate(const backend::GroupCall& group, std::size_t s, std::int64_t begin_bytes);

  // Longer than the delay between threads that leave a meeting together, shorter than the absence of a thread
  // without a core.
  static constexpr std::chrono::microseconds kPatience{5};

  std::vector<Rank> ranks_;
  detail::Parking parking_;  // threads whose own work is done wait here
};

std::unique_ptr<backend::CommunicatorBackend> make_host_communicator(int num_ranks);

}  // namespace lockstep::host

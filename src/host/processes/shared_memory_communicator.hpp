#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/process_group.hpp>

#include "host/memory_communicator.hpp"
#include "host/processes/piece_stream.hpp"
#include "host/processes/slot_ring.hpp"

namespace lockstep::host {

/// Collectives between the ranks of several processes on one host, on the threads that call them, through
/// memory that all of them share.
///
/// A batch travels as one stream of bytes, in chunks that stay in the caches: each rank copies its chunk into
/// a slot, and reads what it needs from the slots of all. So memory is read and written no more often than by
/// ranks that see each other's: n·S bytes each. Two ranks, or those of a short message, each combine all
/// contributions themselves, after one wait. More each combine a slice of every chunk, and copy the others'.
class SharedMemoryCommunicator final : public MemoryCommunicator {
 public:
  /// @param segment  of SlotRing::part_bytes.
  SharedMemoryCommunicator(std::shared_ptr<detail::SharedSegment> segment,
                           const backend::ProcessRanks& ranks);

  int num_ranks() const override { return ring_.num_ranks(); }
  void all_reduce(const backend::GroupCall& group) override { combine(group, kAll); }
  void reduce(const backend::GroupCall& group) override { combine(group, group.root); }
  void broadcast(const backend::GroupCall& group) override;
  void all_gather(const backend::GroupCall& group) override;
  void reduce_scatter(const backend::GroupCall& group) override;
  void transfer(const backend::GroupCall& group) override;
  void abort() noexcept override { ring_.abort(); }

 private:
  // What the thread that drives a rank keeps from call to call.
  struct alignas(64) Rank {
    std::vector<const std::byte*> chunks;
    std::vector<const void*> sources;
    std::vector<void*> destinations;
    std::vector<std::byte> slice;
    std::vector<PieceStream> streams;
    std::vector<std::vector<std::size_t>> transfers;
  };
  // A part of a stream.
  struct Range {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };

  static constexpr int kAll = -1;

  /// To the root, or to all.
  void combine(const backend::GroupCall& group, int root);
  void combine_all(const backend::GroupCall& group, int root, const PieceStream& stream, bool streaming);
  void combine_slices(const backend::GroupCall& group, int root, const PieceStream& stream, bool streaming);

  /// Scratch of the calling thread.
  Rank& scratch(const backend::GroupCall& group) {
    return ranks_[static_cast<std::size_t>(group.own.front().rank)];
  }
  /// Where the ranks' chunks of a step are, by rank.
  std::span<const std::byte*> chunks_of(Rank& here, std::uint64_t step, std::int64_t size_bytes) const;
  std::int64_t num_chunks(std::int64_t size_bytes) const {
    return (size_bytes + ring_.chunk_bytes() - 1) / ring_.chunk_bytes();
  }
  Range chunk_of(const PieceStream& stream, std::int64_t k) const {
    const std::int64_t size = stream.size_bytes(), bytes = ring_.chunk_bytes();
    return {std::min(k * bytes, size), std::min((k + 1) * bytes, size)};
  }
  /// Copies chunk k of what the rank sends, or a part of a chunk, into its slot.
  void copy_in(const backend::RankCall& call, const PieceStream& stream, std::int64_t k,
               std::uint64_t step) const;
  void copy_in(const backend::RankCall& call, const PieceStream& stream, const Range& chunk,
               const Range& part, std::uint64_t step) const;
  bool is_local(int rank) const { return rank >= local_begin_ && rank < local_end_; }

  /// SlotRing's, for the ranks that the thread drives.
  template <class Give, class Take>
  void make_steps(const backend::GroupCall& group, std::int64_t num_steps, const Give& give,
                  const Take& take);
  /// Once no thread uses the memory of another's ranks.
  [[noreturn]] void throw_aborted(const backend::GroupCall& group) const;

  SlotRing ring_;
  int local_begin_, local_end_;  // the ranks of this process
  std::vector<Rank> ranks_;      // by rank; those of other processes are not used
};

/// The processes make theirs together. @throws as detail::SharedSegment
std::unique_ptr<backend::CommunicatorBackend> make_shared_memory_communicator(
    const backend::ProcessRanks& ranks);

}  // namespace lockstep::host

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/process_group.hpp>

#include "host/engine/exchange.hpp"
#include "host/engine/reduced_part.hpp"

namespace lockstep::host {

/// Reductions of long messages along the chain of processes: each combines what the one before it hands on
/// with what its own ranks have, in rank order, and the last one hands the result back. Chunks follow each
/// other, so that all links are busy in both directions. So a message crosses each link once in each
/// direction, however many ranks a process has, and however many processes a host.
class Chain {
 public:
  /// @param exchange  outlives this.
  Chain(Exchange& exchange, const backend::ProcessRanks& ranks);

  /// Whether the chain takes less time than sending every rank's elements to where they are combined; the
  /// same on all processes. @param size_bytes  of what a rank brings.
  bool pays(std::int64_t size_bytes) const noexcept;

  /// Reduces the parts, which are the same on all processes. @return those whose mean this cannot tell, as
  /// their sum overflows: nothing of them was written.
  std::vector<ReducedPart> reduce(const backend::GroupCall& group, std::span<const ReducedPart> parts);

 private:
  // A part, or one cut from it, and where it lies in the buffers.
  struct Piece {
    ReducedPart part;
    DType dtype;
    std::int64_t partial_begin, result_begin;  // bytes

    std::int64_t count() const { return part.size_bytes / static_cast<std::int64_t>(size_of(dtype)); }
  };
  struct Chunk {
    std::vector<Piece> pieces;
    std::int64_t partial_bytes = 0, result_bytes = 0;
  };

  int last() const noexcept { return static_cast<int>(begins_.size()) - 2; }
  int process_of(int rank) const noexcept;
  std::int64_t chunk_bytes(std::int64_t size_bytes) const noexcept;
  std::vector<Chunk> chunks_of(const backend::GroupCall& group, std::span<const ReducedPart> parts) const;
  std::byte* partial(std::int64_t chunk) { return partials_[static_cast<std::size_t>(chunk % 2)].data(); }
  std::byte* result(std::int64_t chunk) { return results_[static_cast<std::size_t>(chunk % 2)].data(); }

  /// Combines the ranks of this process with the chunk's partial.
  void combine(const backend::GroupCall& group, const Chunk& chunk, std::byte* partial);
  void finish(const backend::GroupCall& group, const Chunk& chunk, std::byte* partial, std::byte* result);
  /// Calls f(data, size_bytes) for what goes from process `from` to the one before it.
  template <class F>
  void for_each_result(const Chunk& chunk, std::byte* result, int from, const F& f) const;
  /// Writes the results to this process's ranks; those that there are none of are added to `left_over`.
  void deliver(const backend::GroupCall& group, const Chunk& chunk, const std::byte* result,
               std::vector<ReducedPart>& left_over);

  Exchange& exchange_;
  const int process_;
  std::vector<int> begins_;  // of each process's ranks, and of none behind the last
  bool shares_links_;        // several ranks would send the same bytes over one link
  std::array<std::vector<std::byte>, 2> partials_, results_;  // of every other chunk
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
};

}  // namespace lockstep::host

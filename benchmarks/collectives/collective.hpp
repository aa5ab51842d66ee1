#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/dtype.hpp>

namespace lockstep::bench {

/// How many elements one rank sends and receives (the most of any rank, where they differ), and which number
/// the table shows.
struct Counts {
  std::int64_t send = 0;
  std::int64_t receive = 0;
  std::int64_t argument = 0;  ///< The column "count".
  /// In place, rank r's send and receive buffers begin r times as many elements into their common buffer.
  std::int64_t in_place_send_step = 0, in_place_receive_step = 0;
  std::int64_t element_bytes = 1;  ///< Where transfers depend on it.
};

/// Stands for every rank of a group.
inline constexpr int kAllRanks = -1;

/// The source of a piece of the result, which says its correct values and the least traffic that makes it.
struct Transfer {
  int source = kAllRanks;       ///< Whose elements these are; of all ranks: their reduction.
  int destination = kAllRanks;  ///< Who gets them.
  std::int64_t source_begin = 0, destination_begin = 0;  ///< Elements, in send and receive buffers.
  std::int64_t count = 0;
};

/// The description of one collective. Each has a small file, and collective.cpp lists them.
struct Collective {
  std::string_view name;
  std::string_view bus_formula;  ///< Of busbw over algbw, on n ranks.
  bool reduces = false;          ///< Runs with an operator.
  bool has_root = false;
  bool only_root_sends = false;
  bool only_root_receives = false;
  bool has_in_place = true;  ///< Else both placements are out of place.

  /// @param elements  the number that makes the size asked for. @param element_bytes  the size of one.
  std::function<Counts(std::int64_t elements, int num_ranks, std::int64_t element_bytes)> counts{};
  double (*bus_factor)(int num_ranks) = nullptr;
  std::function<std::vector<Transfer>(const Counts& counts, int num_ranks, int root)> transfers{};
  std::function<void(Communicator& communicator, const Counts& counts, ReduceOp op, int root,
                     std::span<const RankBatch> batches, const CommunicationOptions& options)>
      run{};

  bool sends(int rank, int root) const { return !only_root_sends || rank == root; }
  bool receives(int rank, int root) const { return !only_root_receives || rank == root; }
};

/// A rank's part of `elements`, rounded down to 16 bytes as nccl-tests does, so that parts are aligned.
std::int64_t part_of(std::int64_t elements, int num_ranks, std::int64_t element_bytes);

std::span<const Collective* const> all_collectives();
/// @return null: there is no collective of that name.
const Collective* find_collective(std::string_view name);

}  // namespace lockstep::bench

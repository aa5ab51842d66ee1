#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/dtype.hpp>

#include "verify.hpp"

namespace lockstep::bench {

/// Elements that one rank sends and receives, and what the table shows of them.
struct Counts {
  std::int64_t send = 0;
  std::int64_t receive = 0;
  std::int64_t argument = 0;  ///< The column "count".
};

/// What the benchmark must know of one collective. One small file each, listed in collective.cpp.
struct Collective {
  std::string_view name;
  std::string_view bus_formula;  ///< Of busbw over algbw, on n ranks.
  bool reduces = false;          ///< Runs with an operator.
  bool has_root = false;

  /// @param elements  how many make the size asked for.
  Counts (*counts)(std::int64_t elements, int num_ranks);
  double (*bus_factor)(int num_ranks);
  /// Writes elements [begin, end) of what a rank sends.
  void (*fill_input)(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end);
  /// Counts wrong elements [begin, end) over all ranks' results.
  std::int64_t (*count_wrong)(const Pattern& pattern, std::span<const void* const> results,
                              std::int64_t begin, std::int64_t end);
  void (*run)(Communicator& communicator, ReduceOp op, int root, std::span<const RankBatch> batches,
              const CommunicationOptions& options);
};

std::span<const Collective* const> all_collectives();
std::span<const std::string_view> collective_names();
/// @pre `name` is one of collective_names().
const Collective& find_collective(std::string_view name);

}  // namespace lockstep::bench

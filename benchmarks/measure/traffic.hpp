#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <vector>

namespace lockstep::bench {

/// Looks up an environment variable; null when it is not set.
using Environment = std::function<const char*(const char*)>;

/// The bytes that alltoallv sends from rank to rank, by nccl-tests' rules. Either the distance between ranks
/// divides each rank's total, or a matrix gives all numbers.
struct Traffic {
  /// 0: equal parts. 1: parts that grow with the distance, (to - from) modulo n; none for the rank itself.
  double spread = 1;
  std::vector<std::vector<std::int64_t>>
      matrix{};      ///< Bytes, [from][to]; at least as many as ranks, or none.
  double scale = 1;  ///< Has been applied to the matrix; for the report.
  bool prints_summary = false;

  /// Bytes from one rank of n to another, a multiple of 16. @param total_bytes  all bytes that a rank sends,
  /// without a matrix.
  std::int64_t bytes(int from, int to, int num_ranks, std::int64_t total_bytes) const;
  /// The bytes of the rank that sends or receives most.
  std::int64_t most_sent(int num_ranks, std::int64_t total_bytes) const;
  std::int64_t most_received(int num_ranks, std::int64_t total_bytes) const;
  /// Comment lines with the bytes and bandwidths of each rank, for an operation of `time_us`.
  void write_summary(std::ostream& out, int num_ranks, std::int64_t total_bytes, double time_us) const;
};

/// From NCCL_TESTS_ALLTOALLV_SPREAD, _MATRIX_FILE, _MATRIX_SCALE and _PRINT_SUMMARY.
/// @throws OptionError  a value is no number; a file that is not a square matrix of numbers of at least 0, or
/// has fewer rows than there are ranks; with a matrix, first and last size differ, or are below its sums.
Traffic read_traffic(const Environment& environment, int num_ranks, std::int64_t min_bytes,
                     std::int64_t max_bytes);

}  // namespace lockstep::bench

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#include "exit_status.hpp"
#include "split.hpp"
#include "statistics.hpp"

namespace lockstep::bench {

/// What -z asks for after an iteration. "Wait" is for the ranks' streams.
enum class Blocking : std::uint8_t { none, wait_and_barrier, wait, wait_and_untimed_barrier };

/// One element type and operator to measure; `op` matters only to collectives that reduce.
struct DataCase {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
};

/// The command line of nccl-tests 2.19, as far as it means something for host replicas, and lockstep's own
/// additions.
struct Options {
  std::string collective;
  bool help = false;

  int threads = 1;           ///< -t
  int ranks_per_thread = 1;  ///< -g
  std::int64_t min_bytes = 32 << 20;
  std::int64_t max_bytes = 32 << 20;
  std::int64_t step_bytes = 1 << 20;
  std::int64_t step_factor = 1;  ///< Above 1 it is used, and step_bytes is not.
  int iterations = 20;
  int warmup_iterations = 1;
  int aggregate = 1;  ///< Operations in one call of an iteration.
  int cycles = 1;     ///< 0: for ever.
  int check = 1;      ///< Correctness passes.
  std::vector<DataCase> cases{{}};
  std::vector<std::string> skipped_cases;  ///< What "all" leaves out, and why; for the report.
  std::optional<int> root = 0;             ///< None: every rank in turn.
  Blocking blocking = Blocking::none;
  int timeout_seconds = 0;  ///< For one operation; 0: none.
  bool report_cpu_time = false;
  Average average = Average::mean;
  bool report_timestamps = false;
  std::string output_file;
  bool report_memory = false;
  int unalign = 0;  ///< Elements by which buffers miss their alignment.
  bool per_iteration = false;
  int per_iteration_skip = 0;
  bool floor = false;

  int first_device = 0;                    ///< NCCL_TESTS_DEVICE
  std::optional<double> pass_mark_gbps{};  ///< NCCL_TESTS_MIN_BW
  Split split{};                           ///< NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK

  int num_ranks() const { return threads * ranks_per_thread; }
  /// Sizes in bytes, in order; the largest does not exceed max_bytes.
  std::vector<std::int64_t> sizes() const;
};

/// Looks up an environment variable; null when it is not set.
using Environment = std::function<const char*(const char*)>;

/// @param arguments  without the program's name. @throws OptionError
Options parse_options(const std::vector<std::string>& arguments,
                      std::span<const std::string_view> collectives, const Environment& environment);

/// The text that --help prints.
std::string usage();

/// "8", "64K", "1.5m", "2G"; 1024-based. @throws OptionError  with ExitStatus::bad_size; names the flag.
std::int64_t parse_size(const std::string& text, const std::string& flag);

}  // namespace lockstep::bench

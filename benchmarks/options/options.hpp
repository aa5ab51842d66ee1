#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#include "exit_status.hpp"
#include "measure/split.hpp"
#include "measure/traffic.hpp"
#include "processes/launch.hpp"
#include "report/statistics.hpp"

namespace lockstep::bench {

/// What happens after an iteration (-z). "Wait" means to wait for the ranks' streams.
enum class Blocking : std::uint8_t { none, wait_and_barrier, wait, wait_and_untimed_barrier };

/// One element type and operator to measure; `op` matters only to collectives that reduce.
struct DataCase {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
};

/// How values are combined (--algorithm). The backend chooses for automatic.
enum class Algorithm : std::uint8_t { automatic, rank_order, one_device, hierarchical, packed };

/// [outer, axis, inner] of an axis reduction, in elements. Without `outer` the size gives the outer extent.
struct AxisShape {
  std::optional<std::int64_t> outer{};
  std::int64_t axis = 64;
  std::int64_t inner = 64;
};

/// The traits of an operation that say which options mean something to it.
struct Traits {
  std::string_view name;
  bool reduces = false;          ///< Runs with an operator.
  bool has_root = false;         ///< Runs with a root.
  bool is_strategy = false;      ///< A strategy's: its replicas run on its own threads.
  bool has_size = true;          ///< Its sizes and datatype can be chosen.
  bool is_floating = false;      ///< Works on floating-point data only.
  bool has_shape = false;        ///< Takes --shape.
  bool has_size_list = false;    ///< Takes --sizes and --sizes_file, and needs one of them.
  std::string_view floor{};      ///< What --floor measures beside it; empty: nothing.
  std::string_view gpu_floor{};  ///< The same where it is another thing on GPUs.
  std::string_view alone{};      ///< Why it makes no sense in several processes; empty: it does.

  std::string_view floor_on(DeviceKind kind) const {
    return kind == DeviceKind::gpu && !gpu_floor.empty() ? gpu_floor : floor;
  }
};

/// The command line of nccl-tests 2.19, as far as it means something here, and lockstep's own additions.
struct Options {
  std::string collective;

  int threads = 1;           ///< -t
  int ranks_per_thread = 1;  ///< -g
  std::int64_t min_bytes = 32 << 20;
  std::int64_t max_bytes = 32 << 20;
  std::int64_t step_bytes = 1 << 20;
  std::int64_t step_factor = 1;  ///< Above 1 it is used, and step_bytes is not.
  int iterations = 20;
  int warmup_iterations = 1;
  int aggregate = 1;       ///< Operations in one call of an iteration.
  int cycles = 1;          ///< 0: for ever.
  int graph_launches = 0;  ///< -G: of a graph that has all iterations; 0: there is none.
  int check = 1;           ///< Correctness passes.
  std::vector<DataCase> cases{{}};
  std::vector<std::string> skipped_cases;  ///< What "all" leaves out, and why; for the report.
  std::vector<std::string> notes;          ///< What was turned off, and why; for the user.
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
  bool count = false;
  DeviceKind device_kind = DeviceKind::cpu;  ///< --backend
  int virtual_devices = 0;                   ///< --virtual: of one GPU; 0: it is not split.
  Algorithm algorithm = Algorithm::automatic;
  AxisShape shape{};                            ///< --shape
  std::vector<std::int64_t> batch_sizes_bytes;  ///< --sizes, --sizes_file

  int first_device = 0;                    ///< This process's: NCCL_TESTS_DEVICE, or its part of the GPUs.
  std::optional<double> pass_mark_gbps{};  ///< NCCL_TESTS_MIN_BW
  Traffic traffic{};                       ///< NCCL_TESTS_ALLTOALLV_…
  Split split{};                           ///< NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK

  Launch launch{};  ///< The processes that share the ranks.

  /// Of each process.
  int num_local_ranks() const { return threads * ranks_per_thread; }
  /// Of all processes.
  int num_ranks() const { return launch.num_processes * num_local_ranks(); }
  /// This process's ranks are the next num_local_ranks().
  int first_rank() const { return launch.process * num_local_ranks(); }
  /// Whether a collective's floor is the host's loops over buffers that several processes share.
  bool shares_floor() const { return floor && device_kind == DeviceKind::cpu && launch.num_processes > 1; }
  /// Sizes in bytes, in order; the largest does not exceed max_bytes.
  std::vector<std::int64_t> sizes() const;
  /// "host" or "cuda".
  std::string_view backend_name() const { return device_kind == DeviceKind::cpu ? "host" : "cuda"; }
};

/// Whether -h or --help is among the arguments. @param arguments  without the program's name.
bool asks_for_help(const std::vector<std::string>& arguments);

/// @param arguments  without the program's name, and without -h. @throws OptionError
Options parse_options(const std::vector<std::string>& arguments, std::span<const Traits> operations,
                      const Environment& environment, const Launch& launch = {});

/// The text that --help prints.
std::string usage();

/// "8", "64K", "1.5m", "2 GB": a number and the first letter of a unit, 1024-based. @throws OptionError  with
/// ExitStatus::bad_size; names the flag.
std::int64_t parse_size(const std::string& text, const std::string& flag);

}  // namespace lockstep::bench

#include "options/options.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include <CLI/CLI.hpp>

#include <lockstep/version.hpp>

#include "collectives/table.hpp"
#include "detail/concat.hpp"
#include "options/command_line.hpp"
#include "options/data_cases.hpp"
#include "options/environment.hpp"
#include "options/flag_checks.hpp"
#include "options/operation_options.hpp"

namespace lockstep::bench {
namespace {

using detail::concat;

constexpr const char* kDescription =
    "lockstep_bench: measures collectives, with nccl-tests' options and columns.\n"
    "algbw = size / time, busbw = algbw x 2(n-1)/n for all_reduce on n ranks; GB/s = 1e9 bytes per second.\n"
    "Collectives: all_reduce reduce broadcast all_gather reduce_scatter gather scatter alltoall alltoallv\n"
    "sendrecv.\n"
    "Of a strategy: run run_all_reduce merge_call update axis_reduce batch_reduce step recorded_step input.\n"
    "Processes that mpirun, torchrun, Slurm or TF_CONFIG starts together measure together; the first "
    "reports.\n"
    "Each takes GPUs of its own, after those of the processes before it on its host.";

const Traits& find_operation(std::span<const Traits> operations, const std::string& name) {
  const auto found = std::ranges::find(operations, name, &Traits::name);
  if (found != operations.end()) return *found;
  std::string names;
  for (const Traits& operation : operations) names += concat(" ", operation.name);
  if (name == "hypercube")  // the one of nccl-tests 2.19.6 that is missing
    throw OptionError(ExitStatus::not_implemented,
                      concat("the collective 'hypercube' is not implemented; measure one of:", names));
  throw OptionError(ExitStatus::usage, concat("the collective '", name, "' is none of:", names));
}

void set_backend(Options& options, const std::string& backend) {
  if (backend == "cuda") {
    if (LOCKSTEP_HAS_CUDA == 0)
      throw OptionError(ExitStatus::not_implemented,
                        "--backend 'cuda' is not built in; use host, or build with CUDA");
    options.device_kind = DeviceKind::gpu;
  } else if (backend != "host") {
    throw OptionError(ExitStatus::not_implemented,
                      concat("--backend '", backend, "' is not built in; use host or cuda"));
  }
}

void set_ranks(Options& options, const CommandLine& given) {
  const bool says_ranks = given.replicas > 0 || given.threads > 0 || given.ranks_per_thread > 0;
  const int replicas = says_ranks ? given.replicas : options.virtual_devices;
  const int driven = std::max(given.ranks_per_thread, 1);
  const int threads = given.threads > 0 ? given.threads : replicas > 0 ? std::max(replicas / driven, 1) : 1;
  const bool share = replicas > 0 && given.ranks_per_thread == 0 && replicas % threads == 0;
  options.threads = threads;
  options.ranks_per_thread = share ? replicas / threads : driven;
  constexpr int kMostRanks = 4096;
  const int processes = options.launch.num_processes;
  if (static_cast<std::int64_t>(options.threads) * options.ranks_per_thread * processes > kMostRanks)
    throw OptionError(ExitStatus::usage,
                      concat("-t ", options.threads, " times -g ", options.ranks_per_thread,
                             processes > 1 ? concat(" in each of ", processes, " processes") : "",
                             " is more than ", kMostRanks, " ranks"));
  if (given.replicas > 0 && options.num_local_ranks() != given.replicas)
    throw OptionError(ExitStatus::usage,
                      concat("--replicas ", given.replicas, " is not -t ", options.threads, " times -g ",
                             options.ranks_per_thread, "; leave one of them out, or make them agree"));
  if (options.virtual_devices > 0 && options.num_ranks() > options.virtual_devices)
    throw OptionError(
        ExitStatus::usage,
        concat("--virtual ", options.virtual_devices, " makes fewer devices than the ", options.num_ranks(),
               " ranks; use as many, or no --virtual and a GPU for each rank"));
}

void set_sizes(Options& options, const CommandLine& given) {
  if (!given.min_bytes.empty()) options.min_bytes = parse_size(given.min_bytes, "-b (--minbytes)");
  if (!given.max_bytes.empty()) options.max_bytes = parse_size(given.max_bytes, "-e (--maxbytes)");
  if (!given.step_bytes.empty()) options.step_bytes = parse_size(given.step_bytes, "-i (--stepbytes)");
  if (options.min_bytes > options.max_bytes)
    throw OptionError(ExitStatus::bad_size, concat("-b (--minbytes) ", options.min_bytes,
                                                   " is larger than -e (--maxbytes) ", options.max_bytes));
  if (options.min_bytes == options.max_bytes) return;
  if (options.step_factor > 1 ? options.min_bytes == 0 : options.step_bytes == 0)
    throw OptionError(ExitStatus::bad_size,
                      options.step_factor > 1
                          ? "-f (--stepfactor) never leaves -b 0; start from a larger size"
                          : "-i (--stepbytes) 0 never reaches -e (--maxbytes)");
  constexpr std::int64_t kMostSizes = 1 << 20;
  if (options.step_factor <= 1 && (options.max_bytes - options.min_bytes) / options.step_bytes >= kMostSizes)
    throw OptionError(ExitStatus::bad_size,
                      concat("-i (--stepbytes) ", options.step_bytes, " gives more than ", kMostSizes,
                             " sizes; use a larger one, or -f (--stepfactor)"));
}

void set_root(Options& options, const Traits& operation, const std::string& text) {
  if (!operation.has_root) return;
  if (text == "all") {
    options.root.reset();
    return;
  }
  int root = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), root);
  if (error != std::errc() || *rest != '\0' || root < 0 || root >= options.num_ranks())
    throw OptionError(ExitStatus::usage, concat("-r (--root) '", text, "' is neither all nor a rank below ",
                                                options.num_ranks()));
  options.root = root;
}

// As nccl-tests does, turns off an impossible setting, and notes it.
void set_per_iteration(Options& options, int timing) {
  options.per_iteration = timing == 1;
  if (timing != 0 && timing != 1)
    options.notes.push_back(
        concat("-I (--per_iter_timing) ", timing, " is neither 0 nor 1: it is turned off"));
  int& skip = options.per_iteration_skip;
  std::string reason;
  if (skip < 0 || skip >= options.iterations)
    reason = concat("is not from 0 to ", options.iterations - 1);
  else if (skip > 0 && !options.per_iteration)
    reason = "needs -I 1";
  if (reason.empty()) return;
  options.notes.push_back(concat("-K (--per_iter_skip) ", skip, " ", reason, ": it is turned off"));
  skip = 0;
}

}  // namespace

std::vector<std::int64_t> Options::sizes() const {
  std::vector<std::int64_t> sizes;
  std::int64_t size = min_bytes;
  while (size <= max_bytes) {
    sizes.push_back(size);
    const bool multiplies = step_factor > 1;
    // Compared by division and subtraction, which cannot overflow.
    if (size == max_bytes || (multiplies ? size > max_bytes / step_factor : step_bytes > max_bytes - size))
      break;
    size = multiplies ? size * step_factor : size + step_bytes;
  }
  return sizes;
}

namespace {

void parse(CLI::App& app, const std::vector<std::string>& arguments) {
  app.parse(std::vector<std::string>(arguments.rbegin(),
                                     arguments.rend()));  // CLI11 takes the arguments from the back
}

}  // namespace

bool asks_for_help(const std::vector<std::string>& arguments) {
  Options options;
  CommandLine given;
  CLI::App app(kDescription, "lockstep_bench");
  declare_flags(app, options, given);
  try {
    parse(app, arguments);
  } catch (const CLI::CallForHelp&) {
    return true;
  } catch (const CLI::ParseError&) {  // parse_options says what is wrong
  }
  return false;
}

Options parse_options(const std::vector<std::string>& arguments, std::span<const Traits> operations,
                      const Environment& environment, const Launch& launch) {
  Options options;
  options.launch = launch;
  CommandLine given;
  CLI::App app(kDescription, "lockstep_bench");
  declare_flags(app, options, given);
  try {
    parse(app, arguments);
  } catch (const CLI::ParseError& error) {
    throw OptionError(ExitStatus::usage, error.what());
  }

  const Traits& operation = find_operation(operations, options.collective);
  set_backend(options, given.backend);
  require_backend_has(options, given);
  require_operation_takes(app, operation);
  set_ranks(options, given);
  set_sizes(options, given);
  if (operation.has_shape) set_shape(options, given.shape);
  if (options.shape.outer && app.count("--minbytes") + app.count("--maxbytes") > 0)
    throw OptionError(ExitStatus::usage, concat("-b and -e make no sense with --shape ", given.shape,
                                                ", which says the size; use * for OUTER"));
  if (operation.has_size_list) set_batch(options, given.sizes, given.sizes_file);
  if (!operation.has_size) options.min_bytes = options.max_bytes = 0;
  set_cases(options, operation, given.op, given.dtype);
  set_algorithm(options, operation, given.algorithm);
  require_processes_take(options, operation);
  set_root(options, operation, given.root);
  options.blocking = static_cast<Blocking>(given.blocking);
  options.graph_launches = given.cuda_graph;
  options.average = static_cast<Average>(given.average);
  options.report_cpu_time = given.report_cpu_time != 0;
  options.report_timestamps = given.report_timestamps != 0;
  options.report_memory = given.report_memory != 0;
  set_per_iteration(options, given.per_iteration);
  read_environment(options, environment);
  if (operation.name == kAllToAllV.name)
    options.traffic = read_traffic(environment, options.num_ranks(), options.min_bytes, options.max_bytes);
  check_split(options, operation);
  return options;
}

std::string usage() {
  Options options;
  CommandLine given;
  CLI::App app(kDescription, "lockstep_bench");
  declare_flags(app, options, given);
  return app.help();
}

std::int64_t parse_size(const std::string& text, const std::string& flag) {
  char* unit = nullptr;
  double value = std::strtod(text.c_str(), &unit);
  bool good = unit != text.c_str() && std::isfinite(value) && value >= 0;
  while (std::isspace(static_cast<unsigned char>(*unit)) != 0) ++unit;
  int shift = 0;
  switch (*unit) {  // what follows it is not looked at, as in nccl-tests
    case '\0': break;
    case 'k':
    case 'K': shift = 10; break;
    case 'm':
    case 'M': shift = 20; break;
    case 'g':
    case 'G': shift = 30; break;
    default: good = false;
  }
  value = std::ldexp(value, shift);
  if (!good || value >= 0x1p62)
    throw OptionError(ExitStatus::bad_size,
                      concat(flag, " '", text, "' is not a size: a number with an optional K, M or G"));
  return static_cast<std::int64_t>(value);
}

}  // namespace lockstep::bench

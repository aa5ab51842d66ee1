#include "options.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <system_error>

#include <CLI/CLI.hpp>

#include <lockstep/version.hpp>

#include "collectives/table.hpp"
#include "detail/concat.hpp"
#include "operation_options.hpp"
#include "report/names.hpp"

namespace lockstep::bench {
namespace {

using detail::concat;

[[noreturn]] void fail(ExitStatus status, const std::string& message) { throw OptionError(status, message); }

// What the parser fills: texts that need more than CLI11 does, and flags that are known only by their
// default.
struct RawOptions {
  std::string min_bytes, max_bytes, step_bytes, op = "sum", dtype = "float", root = "0", backend = "host";
  std::string algorithm = "auto", shape, sizes, sizes_file;
  int threads = 0, ranks_per_thread = 0, replicas = 0, blocking = 0, average = 1;
  int report_cpu_time = 0, report_timestamps = 0, report_memory = 0, per_iteration = 0;
  int parallel_init = 0, stream_null = 0, cuda_graph = 0, local_register = 0, cta_policy = 0;
  int device_implementation = 0, device_ctas = 16;
};

constexpr int kMost = std::numeric_limits<int>::max();

// As CLI::Range, which adds "INT in [1 - 2147483647]" to each line of the help.
CLI::Validator whole_number(int least, int most = kMost) {
  const auto check = [least, most](const std::string& text) {
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && rest == end && least <= value && value <= most) return std::string();
    return concat("'", text, "' is not a whole number from ", least,
                  most == kMost ? concat(" up") : concat(" to ", most));
  };
  return CLI::Validator(check, "");
}

void declare(CLI::App& app, Options& options, RawOptions& raw) {
  // getopt, which nccl-tests uses, lets the last one win.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const CLI::Validator at_least_0 = whole_number(0), at_least_1 = whole_number(1),
                       zero_or_one = whole_number(0, 1), zero_to_three = whole_number(0, 3);

  app.add_option("collective", options.collective, "what to measure");
  app.add_option("-t,--nthreads", raw.threads, "threads [1, or one per replica]")->check(at_least_1);
  app.add_option("-g,--ngpus", raw.ranks_per_thread, "ranks that each thread drives [1]")->check(at_least_1);
  app.add_option("-b,--minbytes", raw.min_bytes, "first size, with an optional K, M or G (1024-based) [32M]");
  app.add_option("-e,--maxbytes", raw.max_bytes, "last size [32M]");
  app.add_option("-i,--stepbytes", raw.step_bytes, "added from size to size [1M]");
  app.add_option("-f,--stepfactor", options.step_factor,
                 "multiplied from size to size; above 1 it wins [off]")
      ->check(at_least_0);
  app.add_option("-n,--iters", options.iterations, "timed iterations [20]")->check(at_least_1);
  app.add_option("-w,--warmup_iters", options.warmup_iterations, "warm-up iterations [1]")->check(at_least_0);
  app.add_option("-m,--agg_iters", options.aggregate, "operations in one call of an iteration [1]")
      ->check(at_least_1);
  app.add_option("-N,--run_cycles", options.cycles, "times to repeat the sweep; 0: for ever [1]")
      ->check(at_least_0);
  app.add_option("-c,--check", options.check, "correctness passes; 0: none [1]")->check(at_least_0);
  app.add_option("-o,--op", raw.op, "sum prod min max avg all [sum]");
  app.add_option("-d,--datatype", raw.dtype,
                 "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all [float]");
  app.add_option("-r,--root", raw.root, "root rank, or all, of collectives that have one [0]");
  app.add_option("-p,--parallel_init", raw.parallel_init, "only 0");
  app.add_option(
         "-z,--blocking", raw.blocking,
         "after each iteration: 0 nothing, 1 wait and barrier, 2 wait, 3 wait and untimed barrier [0]")
      ->check(zero_to_three);
  app.add_option("-y,--stream_null", raw.stream_null, "only 0");
  app.add_option("-T,--timeout", options.timeout_seconds, "seconds for one operation [off]")
      ->check(at_least_0);
  app.add_option("-G,--cudagraph", raw.cuda_graph, "only 0");
  app.add_option("-C,--report_cputime", raw.report_cpu_time, "1: report the time of the calls alone [0]")
      ->check(zero_or_one);
  app.add_option("-a,--average", raw.average, "time over ranks: 0 rank 0's, 1 mean, 2 min, 3 max [1]")
      ->check(zero_to_three);
  app.add_option("-R,--local_register", raw.local_register, "only 0");
  app.add_option("-x,--cta_policy", raw.cta_policy, "only -1 or 0");
  app.add_option("-D,--device_implementation", raw.device_implementation, "only 0");
  app.add_option("-V,--device_cta_count", raw.device_ctas, "only 16, the default");
  app.add_option("-S,--report_timestamps", raw.report_timestamps, "1: append a timestamp to each row [0]")
      ->check(zero_or_one);
  app.add_option("-J,--output_file", options.output_file,
                 "write JSON here; an existing file is kept, .0, .1, ... is appended");
  app.add_option("-M,--memory", raw.report_memory, "1: report the memory used [0]")->check(zero_or_one);
  app.add_option("-u,--unalign", options.unalign, "misalign buffers by so many elements [0]")
      ->check(whole_number(0, 1 << 20));
  app.add_option("-I,--per_iter_timing", raw.per_iteration, "1: time each iteration, adds four columns [0]");
  app.add_option("-K,--per_iter_skip", options.per_iteration_skip,
                 "iterations at the start that -I's columns leave out [0]");
  app.add_option("--backend", raw.backend, "host or cuda [host]");
  app.add_option("--replicas", raw.replicas, "ranks [-t times -g]")->check(at_least_1);
  app.add_option("--virtual", options.virtual_devices,
                 "splits a GPU, the first one, into so many virtual devices, for as many ranks [off]")
      ->check(at_least_1);
  app.add_option(
      "--algorithm", raw.algorithm,
      "how values are combined: auto rank_order; batch_reduce: one_device hierarchical packed [auto]");
  app.add_flag(
      "--floor", options.floor,
      "add the time of a plain loop over the same memory, on GPUs of a copy of as many bytes, and as ratio "
      "that time over the operation's");
  app.add_option("--shape", raw.shape,
                 "OUTER,AXIS,INNER in elements, of axis_reduce; OUTER may be *: as the size says [*,64,64]");
  app.add_option("--sizes", raw.sizes, "sizes of batch_reduce's tensors: 4K,1M,...");
  app.add_option("--sizes_file", raw.sizes_file,
                 "a file of them: the last word of each line, as in 'conv1.weight 36K'; # begins a comment");
}

constexpr const char* kDescription =
    "lockstep_bench: measures collectives, with nccl-tests' options and columns.\n"
    "algbw = size / time, busbw = algbw x 2(n-1)/n for all_reduce on n ranks; GB/s = 1e9 bytes per second.\n"
    "Collectives: all_reduce reduce broadcast all_gather reduce_scatter gather scatter alltoall alltoallv\n"
    "sendrecv.\n"
    "Of a strategy: run merge_call update axis_reduce batch_reduce step input.";

const Traits& find_operation(std::span<const Traits> operations, const std::string& name) {
  const auto found = std::ranges::find(operations, name, &Traits::name);
  if (found != operations.end()) return *found;
  std::string names;
  for (const Traits& operation : operations) names += concat(" ", operation.name);
  if (name == "hypercube")  // the one of nccl-tests 2.19.6 that is missing
    fail(ExitStatus::not_implemented,
         concat("the collective 'hypercube' is not implemented; measure one of:", names));
  fail(ExitStatus::usage, concat("the collective '", name, "' is none of:", names));
}

void set_backend(Options& options, const std::string& backend) {
  if (backend == "cuda") {
    if (LOCKSTEP_HAS_CUDA == 0)
      fail(ExitStatus::not_implemented, "--backend 'cuda' is not built in; use host, or build with CUDA");
    options.device_kind = DeviceKind::gpu;
  } else if (backend != "host") {
    fail(ExitStatus::not_implemented, concat("--backend '", backend, "' is not built in; use host or cuda"));
  }
}

void refuse_device_flags(const Options& options, const RawOptions& raw) {
  if (raw.device_implementation != 0 && raw.local_register != 2)
    fail(ExitStatus::bad_size, "-D (--device_implementation) needs -R 2");
  const bool is_host = options.device_kind == DeviceKind::cpu;
  const auto refuse_unless = [&](bool is_default, const char* flag, const char* on_host, const char* on_gpu) {
    if (!is_default)
      fail(ExitStatus::not_implemented, concat(flag, " cannot be used with --backend ",
                                               options.backend_name(), ": ", is_host ? on_host : on_gpu));
  };
  refuse_unless(raw.parallel_init == 0, "-p (--parallel_init)",
                "one call makes the communicator of all host ranks",
                "one call makes the communicator of all ranks");
  refuse_unless(raw.stream_null == 0, "-y (--stream_null)", "there is no CUDA null stream",
                "each rank has a stream of its own");
  refuse_unless(raw.cuda_graph == 0, "-G (--cudagraph)", "host work is not captured into graphs",
                "iterations are not captured into graphs");
  refuse_unless(raw.local_register == 0, "-R (--local_register)", "host memory needs no registration",
                "buffers are not registered with NCCL");
  refuse_unless(raw.cta_policy == 0 || raw.cta_policy == -1, "-x (--cta_policy)",
                "there are no thread blocks", "the policy is the Communicator's own");
  refuse_unless(raw.device_implementation == 0, "-D (--device_implementation)", "there are no device kernels",
                "the Communicator has no device-side implementations to choose from");
  refuse_unless(raw.device_ctas == 16, "-V (--device_cta_count)", "there are no thread blocks",
                "the Communicator has no device-side implementations to choose from");
  refuse_unless(options.virtual_devices == 0 || !is_host, "--virtual",
                "any number of replicas is virtual there (--replicas)", "");
  refuse_unless(!options.floor || raw.report_cpu_time == 0 || is_host, "--floor with -C 1", "",
                "a copy's time ends with the copy, and would be compared with that of calls alone");
}

// What nccl-tests ignores (-r and -o where there is no root or operator) is ignored for its collectives too,
// so that scripts can pass all of them the same flags.
void refuse_meaningless_flags(const CLI::App& app, const Traits& operation) {
  const auto refuse = [&](std::initializer_list<const char*> flags, const char* reason) {
    for (const char* flag : flags)
      if (app.count(flag) > 0)
        fail(ExitStatus::usage, concat(flag, " makes no sense with ", operation.name, ": ", reason));
  };
  if (!operation.has_shape) refuse({"--shape"}, "only axis_reduce has a shape");
  if (!operation.has_size_list)
    refuse({"--sizes", "--sizes_file"}, "only batch_reduce has a list of sizes");
  else
    refuse({"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor"}, "--sizes or --sizes_file says them");
  if (!operation.is_strategy) return;
  refuse({"--ngpus"}, "a strategy has a thread for each replica; use --replicas");
  refuse({"--root"}, "it has no root");
  refuse({"--unalign"}, "its tensors are allocated by the library, which aligns them");
  if (operation.floor.empty()) refuse({"--floor"}, "there is no simpler way of doing its work");
  if (!operation.reduces) refuse({"--op"}, "it has no operator");
  if (!operation.has_size)
    refuse({"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor", "--datatype"},
           "it has no choice of data");
}

void set_ranks(Options& options, const RawOptions& raw) {
  const bool says_ranks = raw.replicas > 0 || raw.threads > 0 || raw.ranks_per_thread > 0;
  const int replicas = says_ranks ? raw.replicas : options.virtual_devices;
  const int driven = std::max(raw.ranks_per_thread, 1);
  const int threads = raw.threads > 0 ? raw.threads : replicas > 0 ? std::max(replicas / driven, 1) : 1;
  const bool share = replicas > 0 && raw.ranks_per_thread == 0 && replicas % threads == 0;
  options.threads = threads;
  options.ranks_per_thread = share ? replicas / threads : driven;
  constexpr int kMostRanks = 4096;
  if (static_cast<std::int64_t>(options.threads) * options.ranks_per_thread > kMostRanks)
    fail(ExitStatus::usage, concat("-t ", options.threads, " times -g ", options.ranks_per_thread,
                                   " is more than ", kMostRanks, " ranks"));
  if (raw.replicas > 0 && options.num_ranks() != raw.replicas)
    fail(ExitStatus::usage, concat("--replicas ", raw.replicas, " is not -t ", options.threads, " times -g ",
                                   options.ranks_per_thread, "; leave one of them out, or make them agree"));
  if (options.virtual_devices > 0 && options.num_ranks() > options.virtual_devices)
    fail(ExitStatus::usage,
         concat("--virtual ", options.virtual_devices, " makes fewer devices than the ", options.num_ranks(),
                " ranks; use as many, or no --virtual and a GPU for each rank"));
}

void set_sizes(Options& options, const RawOptions& raw) {
  if (!raw.min_bytes.empty()) options.min_bytes = parse_size(raw.min_bytes, "-b (--minbytes)");
  if (!raw.max_bytes.empty()) options.max_bytes = parse_size(raw.max_bytes, "-e (--maxbytes)");
  if (!raw.step_bytes.empty()) options.step_bytes = parse_size(raw.step_bytes, "-i (--stepbytes)");
  if (options.min_bytes > options.max_bytes)
    fail(ExitStatus::bad_size, concat("-b (--minbytes) ", options.min_bytes,
                                      " is larger than -e (--maxbytes) ", options.max_bytes));
  if (options.min_bytes == options.max_bytes) return;
  if (options.step_factor > 1 ? options.min_bytes == 0 : options.step_bytes == 0)
    fail(ExitStatus::bad_size, options.step_factor > 1
                                   ? "-f (--stepfactor) never leaves -b 0; start from a larger size"
                                   : "-i (--stepbytes) 0 never reaches -e (--maxbytes)");
}

// The library's own: "float32", "mean".
template <class Value>
std::string_view name_of(Value value) {
  return name(value);
}

template <class Value>
std::vector<Value> choose(std::span<const Value> known, const std::string& text, const char* flag) {
  std::vector<Value> chosen;
  std::string names;
  for (const Value value : known) {
    if (text == bench_name(value) || text == name_of(value) || text == "all") chosen.push_back(value);
    names += concat(bench_name(value), " ");
  }
  if (chosen.empty()) fail(ExitStatus::usage, concat(flag, " '", text, "' is none of: ", names, "all"));
  return chosen;
}

void set_cases(Options& options, const Traits& operation, const RawOptions& raw) {
  if (raw.op == "mulsum")
    fail(ExitStatus::not_implemented,
         "-o (--op) mulsum: lockstep has no sum with a factor per rank; use sum or avg");
  const auto ops = choose(all_ops(), raw.op, "-o (--op)");
  const auto dtypes = choose(all_dtypes(), raw.dtype, "-d (--datatype)");
  options.cases.clear();
  if (!operation.reduces) {
    for (const DType dtype : dtypes) {
      const bool fits = !operation.is_floating || is_floating(dtype);
      const auto reason = concat(bench_name(dtype), ": ", operation.name, " is for floating-point data");
      if (fits)
        options.cases.push_back({dtype, {}});
      else if (raw.dtype == "all")
        options.skipped_cases.push_back(reason);
      else
        fail(ExitStatus::not_implemented, concat("-d (--datatype) ", reason));
    }
    return;
  }
  if (raw.op == "all") options.skipped_cases.push_back("mulsum: lockstep has no sum with a factor per rank");

  for (const DType dtype : dtypes) {
    for (const ReduceOp op : ops) {
      if (op != ReduceOp::mean || is_floating(dtype)) {
        options.cases.push_back({dtype, op});
        continue;
      }
      const auto reason = concat("avg of ", bench_name(dtype),
                                 ": a mean of integers is a true division, so its result has dtype ",
                                 reduced_dtype(op, dtype), " and cannot be in place");
      if (raw.op != "all" && raw.dtype != "all")
        fail(ExitStatus::not_implemented, concat("-o (--op) ", reason));
      options.skipped_cases.push_back(reason);
    }
  }
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
    fail(ExitStatus::usage,
         concat("-r (--root) '", text, "' is neither all nor a rank below ", options.num_ranks()));
  options.root = root;
}

// As nccl-tests: what cannot be is turned off, and said.
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

void read_environment(Options& options, const Environment& environment) {
  const auto number = [](const char* text, const char* variable) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0))
      fail(ExitStatus::usage, concat(variable, " '", text, "' is not a number of at least 0"));
    return value;
  };
  if (const char* text = environment("NCCL_TESTS_DEVICE"))
    options.first_device = static_cast<int>(number(text, "NCCL_TESTS_DEVICE"));
  if (const char* text = environment("NCCL_TESTS_MIN_BW"))
    options.pass_mark_gbps = number(text, "NCCL_TESTS_MIN_BW");
  // The mask is the older spelling of AND; it wins, as in nccl-tests.
  if (const char* text = environment("NCCL_TESTS_SPLIT_MASK"))
    options.split = parse_mask(text, "NCCL_TESTS_SPLIT_MASK");
  else if (const char* split = environment("NCCL_TESTS_SPLIT"))
    options.split = parse_split(split, "NCCL_TESTS_SPLIT");
}

// A root is a rank of each group.
void check_split(const Options& options, const Traits& operation) {
  if (options.split.operation == Split::Operation::none) return;
  if (operation.is_strategy)
    fail(ExitStatus::usage, concat("NCCL_TESTS_SPLIT makes no sense with ", operation.name,
                                   ": a strategy's replicas are one group"));
  std::map<int, int> sizes;
  for (int rank = 0; rank < options.num_ranks(); ++rank) ++sizes[options.split.color(rank)];
  const auto by_size = [](const auto& group) { return group.second; };
  const int smallest = std::ranges::min_element(sizes, {}, by_size)->second;
  const int first = sizes.begin()->second;
  if (operation.has_root && options.root.value_or(first - 1) >= smallest)
    fail(ExitStatus::usage, concat("-r (--root) ", options.root ? concat(*options.root) : "all",
                                   " names a rank that a group of ", smallest,
                                   " ranks, made by NCCL_TESTS_SPLIT, does not have"));
  if (const Collective* const collective = find_collective(operation.name)) {
    constexpr std::int64_t kElements = 1 << 20;
    const int largest = std::ranges::max_element(sizes, {}, by_size)->second;
    const auto parts = [&](int num_ranks) {
      const Counts counts = collective->counts(kElements, num_ranks, 1);
      return std::pair(counts.send, counts.receive);
    };
    if (parts(smallest) != parts(largest))
      fail(
          ExitStatus::usage,
          concat("NCCL_TESTS_SPLIT makes groups of ", smallest, " to ", largest, " ranks, but the parts of ",
                 operation.name, " are as large as the number of ranks says, which must be the same in all"));
  }
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

Options parse_options(const std::vector<std::string>& arguments, std::span<const Traits> operations,
                      const Environment& environment) {
  Options options;
  RawOptions raw;
  CLI::App app(kDescription, "lockstep_bench");
  declare(app, options, raw);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(),
                                       arguments.rend()));  // CLI11 takes the arguments from the back
  } catch (const CLI::CallForHelp&) {
    options.help = true;
    return options;
  } catch (const CLI::ParseError& error) {
    fail(ExitStatus::usage, error.what());
  }

  const Traits& operation = find_operation(operations, options.collective);
  set_backend(options, raw.backend);
  refuse_device_flags(options, raw);
  refuse_meaningless_flags(app, operation);
  set_ranks(options, raw);
  set_sizes(options, raw);
  if (operation.has_shape) set_shape(options, raw.shape);
  if (options.shape.outer && app.count("--minbytes") + app.count("--maxbytes") > 0)
    fail(ExitStatus::usage, concat("-b and -e make no sense with --shape ", raw.shape,
                                   ", which says the size; use * for OUTER"));
  if (operation.has_size_list) set_batch(options, raw.sizes, raw.sizes_file);
  if (!operation.has_size) options.min_bytes = options.max_bytes = 0;
  set_cases(options, operation, raw);
  set_algorithm(options, operation, raw.algorithm);
  set_root(options, operation, raw.root);
  options.blocking = static_cast<Blocking>(raw.blocking);
  options.average = static_cast<Average>(raw.average);
  options.report_cpu_time = raw.report_cpu_time != 0;
  options.report_timestamps = raw.report_timestamps != 0;
  options.report_memory = raw.report_memory != 0;
  set_per_iteration(options, raw.per_iteration);
  read_environment(options, environment);
  if (operation.name == kAllToAllV.name)
    options.traffic = read_traffic(environment, options.num_ranks(), options.min_bytes, options.max_bytes);
  check_split(options, operation);
  return options;
}

std::string usage() {
  Options options;
  RawOptions raw;
  CLI::App app(kDescription, "lockstep_bench");
  declare(app, options, raw);
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
    fail(ExitStatus::bad_size,
         concat(flag, " '", text, "' is not a size: a number with an optional K, M or G"));
  return static_cast<std::int64_t>(value);
}

}  // namespace lockstep::bench

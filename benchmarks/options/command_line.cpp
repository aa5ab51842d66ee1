#include "options/command_line.hpp"

#include <charconv>
#include <limits>
#include <system_error>

#include "detail/concat.hpp"

namespace lockstep::bench {
namespace {

using detail::concat;

constexpr int kMost = std::numeric_limits<int>::max();

// CLI::Range would add "INT in [1 - 2147483647]" to each line of the help.
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

}  // namespace

void declare_flags(CLI::App& app, Options& options, CommandLine& given) {
  // getopt, which nccl-tests uses, lets the last one win.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const CLI::Validator at_least_0 = whole_number(0), at_least_1 = whole_number(1),
                       zero_or_one = whole_number(0, 1), zero_to_three = whole_number(0, 3);

  app.add_option("collective", options.collective, "what to measure");
  app.add_option("-t,--nthreads", given.threads, "threads [1, or one per replica]")->check(at_least_1);
  app.add_option("-g,--ngpus", given.ranks_per_thread, "ranks that each thread drives [1]")
      ->check(at_least_1);
  app.add_option("-b,--minbytes", given.min_bytes,
                 "first size, with an optional K, M or G (1024-based) [32M]");
  app.add_option("-e,--maxbytes", given.max_bytes, "last size [32M]");
  app.add_option("-i,--stepbytes", given.step_bytes, "added from size to size [1M]");
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
  app.add_option("-o,--op", given.op, "sum prod min max avg all [sum]");
  app.add_option("-d,--datatype", given.dtype,
                 "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all [float]");
  app.add_option("-r,--root", given.root, "root rank, or all, of collectives that have one [0]");
  app.add_option("-p,--parallel_init", given.parallel_init, "only 0");
  app.add_option(
         "-z,--blocking", given.blocking,
         "after each iteration: 0 nothing, 1 wait and barrier, 2 wait, 3 wait and untimed barrier [0]")
      ->check(zero_to_three);
  app.add_option("-y,--stream_null", given.stream_null, "only 0");
  app.add_option("-T,--timeout", options.timeout_seconds, "seconds for one operation [off]")
      ->check(at_least_0);
  app.add_option("-G,--cudagraph", given.cuda_graph,
                 "captures all iterations into a CUDA graph, and launches it so many times [0]")
      ->check(at_least_0);
  app.add_option("-C,--report_cputime", given.report_cpu_time, "1: report the time of the calls alone [0]")
      ->check(zero_or_one);
  app.add_option("-a,--average", given.average, "time over ranks: 0 rank 0's, 1 mean, 2 min, 3 max [1]")
      ->check(zero_to_three);
  app.add_option("-R,--local_register", given.local_register, "only 0");
  app.add_option("-x,--cta_policy", given.cta_policy, "only -1 or 0");
  app.add_option("-D,--device_implementation", given.device_implementation, "only 0");
  app.add_option("-V,--device_cta_count", given.device_ctas, "only 16, the default");
  app.add_option("-S,--report_timestamps", given.report_timestamps, "1: append a timestamp to each row [0]")
      ->check(zero_or_one);
  app.add_option("-J,--output_file", options.output_file,
                 "write JSON here; an existing file is kept, .0, .1, ... is appended");
  app.add_option("-M,--memory", given.report_memory, "1: report the memory used [0]")->check(zero_or_one);
  app.add_option("-u,--unalign", options.unalign, "misalign buffers by so many elements [0]")
      ->check(whole_number(0, 1 << 20));
  app.add_option("-I,--per_iter_timing", given.per_iteration,
                 "1: time each iteration, adds four columns [0]");
  app.add_option("-K,--per_iter_skip", options.per_iteration_skip,
                 "iterations at the start that -I's columns leave out [0]");
  app.add_option("--backend", given.backend, "host or cuda [host]");
  app.add_option("--replicas", given.replicas, "ranks of each process [-t times -g]")->check(at_least_1);
  app.add_option(
         "--virtual", options.virtual_devices,
         "splits a GPU, the first one, into so many virtual devices, for as many ranks of one process [off]")
      ->check(at_least_1);
  app.add_option(
      "--algorithm", given.algorithm,
      "how values are combined: auto rank_order; batch_reduce: one_device hierarchical packed [auto]");
  app.add_flag(
      "--floor", options.floor,
      "add the time of a plain loop over the same memory, on GPUs of a copy of as many bytes, and as ratio "
      "that time over the operation's");
  app.add_flag(
      "--count", options.count,
      "on virtual GPUs: add what an operation moves, over what it must, its kernel launches, and its "
      "calls of CUDA, NCCL and cuBLAS, and how many of these wait");
  app.add_option("--shape", given.shape,
                 "OUTER,AXIS,INNER in elements, of axis_reduce; OUTER may be *: as the size says [*,64,64]");
  app.add_option("--sizes", given.sizes, "sizes of batch_reduce's tensors: 4K,1M,...");
  app.add_option("--sizes_file", given.sizes_file,
                 "a file of them: the last word of each line, as in 'conv1.weight 36K'; # begins a comment");
}

}  // namespace lockstep::bench

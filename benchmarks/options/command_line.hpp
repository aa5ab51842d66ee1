#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "options/options.hpp"

namespace lockstep::bench {

/// What the command line gives beside the Options that the parser sets itself: texts that need more than
/// CLI11 does, and flags that are known only by their default.
struct CommandLine {
  std::string min_bytes, max_bytes, step_bytes, op = "sum", dtype = "float", root = "0", backend = "host";
  std::string algorithm = "auto", shape, sizes, sizes_file;
  int threads = 0, ranks_per_thread = 0, replicas = 0, blocking = 0, average = 1;
  int report_cpu_time = 0, report_timestamps = 0, report_memory = 0, per_iteration = 0;
  int parallel_init = 0, stream_null = 0, cuda_graph = 0, local_register = 0, cta_policy = 0;
  int device_implementation = 0, device_ctas = 16;
};

/// Declares all flags. Parsing sets those of `options` and `given`.
void declare_flags(CLI::App& app, Options& options, CommandLine& given);

}  // namespace lockstep::bench

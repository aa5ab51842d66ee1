#pragma once

#include "options/options.hpp"

/// nccl-tests' environment variables. @throws OptionError  names the variable or the flag.
namespace lockstep::bench {

void read_environment(Options& options, const Environment& environment);

/// Requires that the root is a rank of each group that NCCL_TESTS_SPLIT makes, and that the operation's parts
/// are as large in all groups.
void check_split(const Options& options, const Traits& operation);

}  // namespace lockstep::bench

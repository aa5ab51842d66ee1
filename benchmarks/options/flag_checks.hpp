#pragma once

#include "options/command_line.hpp"

/// Which flags a backend and an operation take. @throws OptionError  names the flag and says why not.
namespace lockstep::bench {

/// Refuses what the backend cannot do.
void require_backend_has(const Options& options, const CommandLine& given);

/// Refuses flags that mean nothing to the operation. nccl-tests ignores -r and -o where there is no root or
/// operator: they are ignored for its collectives here too, so that scripts can pass all the same flags.
void require_operation_takes(const CLI::App& app, const Traits& operation);

/// Refuses what makes no sense in several processes. @pre the algorithm is set.
void require_processes_take(const Options& options, const Traits& operation);

}  // namespace lockstep::bench

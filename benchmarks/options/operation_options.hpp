#pragma once

#include <string>

#include "options/options.hpp"

/// The values of flags that only some operations take. @throws OptionError  names the flag.
namespace lockstep::bench {

/// --algorithm.
void set_algorithm(Options& options, const Traits& operation, const std::string& text);
/// --shape; empty: the default. With an outer extent the sweep has one size.
void set_shape(Options& options, const std::string& text);
/// --sizes and --sizes_file, one of which is empty. The sweep has one size, their sum.
void set_batch(Options& options, const std::string& sizes, const std::string& sizes_file);

}  // namespace lockstep::bench

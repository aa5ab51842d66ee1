#pragma once

#include <string>

#include "options/options.hpp"

namespace lockstep::bench {

/// The values of -o and -d: which operators and element types are measured. @throws OptionError
void set_cases(Options& options, const Traits& operation, const std::string& op_text,
               const std::string& dtype_text);

}  // namespace lockstep::bench

#pragma once

#include <stdexcept>
#include <string>

namespace lockstep::bench {

/// nccl-tests' exit statuses.
enum class ExitStatus : int {
  success = 0,
  internal_error = 1,
  device_error = 2,
  collective_error = 3,
  timeout = 4,
  not_implemented = 5,
  usage = 6,
  failed_check = 7,  ///< A wrong value, or a bandwidth below the pass mark.
  bad_size = 255,    ///< nccl-tests returns -1.
};

/// The command line or an environment variable cannot be used. The message is one line and names the culprit.
class OptionError : public std::runtime_error {
 public:
  OptionError(ExitStatus status, const std::string& message) : std::runtime_error(message), status_(status) {}
  ExitStatus status() const noexcept { return status_; }

 private:
  ExitStatus status_;
};

}  // namespace lockstep::bench

#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"

namespace lockstep::engines {

/// Why a channel cannot be used any more: the first cause that anyone gives. Any thread.
class FirstCause {
 public:
  void set(std::string_view cause) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_set()) return;
    try {
      cause_ = cause;
    } catch (const std::exception&) {  // no memory for it: the channel is aborted without a cause
    }
    is_set_.store(true, std::memory_order_release);
  }
  bool is_set() const noexcept { return is_set_.load(std::memory_order_acquire); }

  /// @param operation  "all_gather". @param engine  "gloo". Both for the message.
  void raise_if_set(std::string_view operation, std::string_view engine) const {
    if (is_set()) raise(operation, engine);
  }
  /// @pre is_set()
  [[noreturn]] void raise(std::string_view operation, std::string_view engine) const {
    throw CollectiveAborted(detail::concat(operation, " by the engine ", engine, ": ", cause_),
                            {.operation = std::string(operation)});
  }

 private:
  std::atomic<bool> is_set_{false};
  std::mutex mutex_;   // orders setters
  std::string cause_;  // does not change once is_set_
};

}  // namespace lockstep::engines

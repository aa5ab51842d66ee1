#include "strategy/runtime/run_failures.hpp"

#include <mutex>

#include <lockstep/error.hpp>

#include "detail/exception_text.hpp"
#include "detail/expects.hpp"

namespace lockstep::detail {

void RunFailures::set(std::size_t replica, std::exception_ptr error) noexcept {
  if (errors_[replica] == error) return;  // no other thread writes it now
  const std::lock_guard lock(mutex_);
  errors_[replica].swap(error);  // the old one is released after the lock
}

std::vector<ReplicaFailure> RunFailures::list() const {
  std::vector<std::exception_ptr> errors;
  {
    const std::lock_guard lock(mutex_);
    errors = errors_;
  }
  std::vector<ReplicaFailure> failures;
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (errors[i])
      failures.push_back({first_replica_ + static_cast<int>(i), errors[i], exception_text(errors[i])});
  return failures;
}

std::exception_ptr late_release(int replica) {
  const std::string message = concat(
      "run: replica ", replica,
      "'s function threw what had released a replica of an earlier run from its wait. Do not keep what "
      "catch (...) gets in a replica function for later: let it pass.");
  return std::make_exception_ptr(
      ContextError(message, complete({.location = {__FILE__, __LINE__, __func__}}, message)));
}

}  // namespace lockstep::detail

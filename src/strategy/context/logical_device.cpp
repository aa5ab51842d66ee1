#include <lockstep/error.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/logical_device.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/expects.hpp"

namespace lockstep {

namespace {
thread_local LogicalDeviceScope* innermost_scope = nullptr;
}

namespace detail {

void check_logical_device(const Strategy& strategy, int logical_device, std::string_view what) {
  const int num_logical_devices = strategy.num_logical_devices();
  LOCKSTEP_EXPECTS(logical_device >= 0 && logical_device < num_logical_devices, InvalidArgument, what, "(",
                   logical_device, ") of ", strategy.name(),
                   ": a replica's logical devices there go from number 0 to ", num_logical_devices - 1,
                   ". Name one of these.");
}

}  // namespace detail

LogicalDeviceScope::LogicalDeviceScope(const Strategy& strategy, int logical_device)
    : strategy_(strategy), logical_device_(logical_device) {
  detail::check_logical_device(strategy, logical_device, "logical_device");
  const detail::ContextFrame* const top = detail::ContextFrame::top();
  if (top != nullptr && top->mode() == detail::ContextFrame::Mode::replica && &top->strategy() == &strategy)
    current_device_.emplace(top->replica_context()->device());
}

LogicalDeviceScope*& LogicalDeviceScope::innermost() noexcept { return innermost_scope; }

int LogicalDeviceScope::current(const Strategy& strategy) noexcept {
  for (const LogicalDeviceScope* scope = innermost_scope; scope != nullptr; scope = scope->outer())
    if (&scope->strategy_ == &strategy) return scope->logical_device_;
  return 0;
}

}  // namespace lockstep

#include <lockstep/strategy/colocation.hpp>

namespace lockstep {

namespace {
thread_local ColocationScope* innermost_scope = nullptr;
}

ColocationScope::ColocationScope(Strategy& strategy, std::vector<Device> devices)
    : strategy_(strategy), devices_(std::move(devices)) {}

ColocationScope*& ColocationScope::innermost() noexcept { return innermost_scope; }

const std::vector<Device>* ColocationScope::devices_for(const Strategy& strategy) noexcept {
  for (const ColocationScope* scope = innermost_scope; scope != nullptr; scope = scope->outer())
    if (&scope->strategy_ == &strategy) return &scope->devices_;
  return nullptr;
}

}  // namespace lockstep

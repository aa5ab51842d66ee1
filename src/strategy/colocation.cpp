#include <lockstep/strategy/colocation.hpp>

namespace lockstep {

namespace {
thread_local ColocationScope* innermost = nullptr;
}

ColocationScope::ColocationScope(Strategy& strategy, std::vector<Device> devices)
    : strategy_(strategy), devices_(std::move(devices)), outer_(innermost) {
  innermost = this;
}

ColocationScope::~ColocationScope() {
  ColocationScope** link = &innermost;
  while (*link != nullptr && *link != this) link = &(*link)->outer_;
  if (*link == this) *link = outer_;
}

const std::vector<Device>* ColocationScope::devices_for(const Strategy& strategy) noexcept {
  for (const ColocationScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    if (&scope->strategy_ == &strategy) return &scope->devices_;
  return nullptr;
}

}  // namespace lockstep

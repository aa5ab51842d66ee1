#include <lockstep/strategy/sync_on_read.hpp>

namespace lockstep {

namespace {
thread_local sync_on_read* innermost_guard = nullptr;
}

sync_on_read*& sync_on_read::innermost() noexcept { return innermost_guard; }
bool sync_on_read::is_active() noexcept { return innermost_guard != nullptr; }

}  // namespace lockstep

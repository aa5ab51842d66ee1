#include <lockstep/strategy/sync_on_read.hpp>

namespace lockstep {

namespace {
thread_local int num_guards = 0;
}

sync_on_read::sync_on_read() noexcept { ++num_guards; }
sync_on_read::~sync_on_read() { --num_guards; }
bool sync_on_read::is_active() noexcept { return num_guards > 0; }

}  // namespace lockstep

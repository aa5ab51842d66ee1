#include <exception>

#include <lockstep/detail/thread_guard.hpp>

#include "detail/concat.hpp"
#include "detail/warn.hpp"

namespace lockstep::detail {

void destroyed_on_another_thread(std::string_view guard) noexcept {
  warn(concat(guard,
              " was destroyed on another thread than the one that made it, on which it would count for ever. "
              "Destroy a guard on the thread that made it."));
  std::terminate();
}

}  // namespace lockstep::detail

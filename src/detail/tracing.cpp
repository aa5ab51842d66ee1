#include "detail/tracing.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

namespace {

thread_local TraceScope* innermost_scope = nullptr;
thread_local TracedUpdate* innermost_update = nullptr;

}  // namespace

TraceScope*& TraceScope::innermost() noexcept { return innermost_scope; }
TracedUpdate*& TracedUpdate::innermost() noexcept { return innermost_update; }

void require_no_trace(std::string_view what, std::string_view advice) {
  LOCKSTEP_EXPECTS(!TraceScope::has_rules(), ContextError, what,
                   " in a traced step, a call of strategy.function after the first: what is traced runs "
                   "later, and again, without the host. ",
                   advice);
}

}  // namespace lockstep::detail

#pragma once

#include <string_view>

#include <lockstep/detail/function_ref.hpp>

#pragma GCC visibility push(default)

namespace lockstep {
class Strategy;
}

/// The library's own ways into a strategy's cross-replica context.
namespace lockstep::detail {

/// @throws ContextError  in a replica function, or another strategy's context; names `what`.
void check_cross_replica(const Strategy& strategy, std::string_view what);

/// Calls fn, a function of the caller's, in cross-replica context. Other threads' calls need not wait for it.
/// @throws ContextError  as check_cross_replica.
void call_in_cross_replica_context(Strategy& strategy, std::string_view what, FunctionRef<void()> fn);

/// Calls fn in cross-replica context as one of the strategy's calls, which are serialised, but for the
/// default strategy's.
/// @throws ContextError  as check_cross_replica; the strategy is being destroyed, or this process is a fork.
void call_serialised(Strategy& strategy, std::string_view what, FunctionRef<void()> fn);

}  // namespace lockstep::detail

#pragma GCC visibility pop

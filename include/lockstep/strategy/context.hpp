#pragma once

#include <optional>

#include <lockstep/detail/context_frame.hpp>
#include <lockstep/device_manager.hpp>

#pragma GCC visibility push(default)

/// Which strategy and context the current thread is in. Each thread has its own; a new thread starts in the
/// default context.
namespace lockstep {

class Strategy;
class ReplicaContext;

/// The strategy of the current context; outside every scope the default strategy (one replica, no
/// synchronisation).
[[nodiscard]] Strategy& get_strategy();
/// Whether a strategy other than the default one is current.
[[nodiscard]] bool has_strategy();
/// In a scope, a merge function or an update function. Exactly one of this and `get_replica_context() !=
/// nullptr` holds.
[[nodiscard]] bool in_cross_replica_context();
/// The replica's context inside `run`, the default one (replica 0 of 1) outside every scope, null in
/// cross-replica context.
[[nodiscard]] ReplicaContext* get_replica_context();
/// The component being updated, inside `update`, and `update_non_slot` where that is about one component.
[[nodiscard]] std::optional<int> get_update_replica_id();

/// Makes a strategy current on this thread without a guard, until it is set to null, which returns to the
/// default context: to be done before the strategy is destroyed, after which questions for it throw
/// ContextError.
/// @throws ContextError  inside any scope.
void set_strategy(Strategy* strategy);

/// Cross-replica context of a strategy until the end of the block, on this thread: variables made meanwhile
/// are the strategy's. Its destruction on another thread ends the program, with a message (std::terminate).
class [[nodiscard]] StrategyScope {
 public:
  /// @throws ContextError  in a replica function, or in another strategy's scope.
  explicit StrategyScope(Strategy& strategy);
  StrategyScope(const StrategyScope&) = delete;
  StrategyScope& operator=(const StrategyScope&) = delete;

 private:
  detail::ContextFrame frame_;
};

}  // namespace lockstep

#pragma GCC visibility pop

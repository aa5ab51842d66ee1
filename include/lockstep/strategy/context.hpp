#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <lockstep/detail/thread_guard.hpp>
#include <lockstep/device_manager.hpp>

#pragma GCC visibility push(default)

/// Which strategy and context the current thread is in. Each thread has its own; a new thread starts in the
/// default context.
namespace lockstep {

class Strategy;
class ReplicaContext;

/// The strategy of the current context; outside every scope the default strategy (one replica, no
/// synchronisation).
Strategy& get_strategy();
/// Whether a strategy other than the default one is current.
bool has_strategy();
/// In a scope, a merge function or an update function. Exactly one of this and `get_replica_context() !=
/// nullptr` holds.
bool in_cross_replica_context();
/// The replica's context inside `run`, the default one (replica 0 of 1) outside every scope, null in
/// cross-replica context.
ReplicaContext* get_replica_context();
/// The component being updated, inside `update`, and `update_non_slot` where that is about one component.
std::optional<int> get_update_replica_id();

/// Makes a strategy current on this thread without a guard, until it is set to null, which returns to the
/// default context: to be done before the strategy is destroyed, after which questions for it throw
/// ContextError.
/// @throws ContextError  inside any scope.
void set_strategy(Strategy* strategy);

namespace detail {

struct VariableUpdate;

/// One entry of the thread's stack of contexts.
class [[nodiscard]] ContextFrame : public ThreadGuard<ContextFrame> {
 public:
  /// default_scope: the default strategy's own scope, in which everything answers as outside every scope.
  /// default_context: nothing that is around it counts.
  enum class Mode : std::uint8_t { cross_replica, replica, update, default_scope, default_context };

  ContextFrame(Mode mode, Strategy& strategy, ReplicaContext* replica_context = nullptr,
               int update_index = -1, VariableUpdate* update = nullptr) noexcept;

  /// One that the caller keeps, perhaps for longer than the strategy.
  struct Kept {};
  ContextFrame(Kept, Mode mode, Strategy& strategy);

  Mode mode() const noexcept { return mode_; }
  /// Whether it is a guard's, or set_strategy's; else a call's of the strategy.
  bool is_kept() const noexcept { return life_.has_value(); }
  /// @throws ContextError  it was destroyed.
  Strategy& strategy() const {
    if (life_ && life_->expired()) raise_strategy_destroyed();
    return strategy_;
  }
  ReplicaContext* replica_context() const noexcept { return replica_context_; }
  int update_index() const noexcept { return update_index_; }
  /// Null outside `update` of a variable.
  VariableUpdate* update() const noexcept { return update_; }

  /// @throws ContextError  it is another strategy's; `what` of `strategy` is not allowed then.
  void check_is_of(const Strategy& strategy, std::string_view what) const;

  /// The innermost entry; null in the default context.
  static const ContextFrame* top() noexcept;
  /// Whether the default strategy's scope is among the entries.
  static bool in_default_scope() noexcept;
  /// Whether this thread is in a call of the strategy's: in a function that it calls, or what that calls.
  static bool is_in_call_of(const Strategy& strategy) noexcept;

 private:
  friend class ThreadGuard<ContextFrame>;
  static constexpr std::string_view kGuardName = "a StrategyScope";
  static ContextFrame*& innermost() noexcept;
  [[noreturn]] static void raise_strategy_destroyed();

  Mode mode_;
  Strategy& strategy_;
  ReplicaContext* replica_context_;
  int update_index_;
  VariableUpdate* update_;
  std::optional<std::weak_ptr<const Strategy>> life_;  // of one that is kept
};

/// The default context on this thread while it lives, whichever scopes it is in: for functions of the user's
/// that are called here as well as on threads of the library's. `set_strategy` throws meanwhile.
class [[nodiscard]] DefaultContext {
 public:
  DefaultContext();

 private:
  ContextFrame frame_;
};

}  // namespace detail

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

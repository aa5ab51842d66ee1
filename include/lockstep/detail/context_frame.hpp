#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <lockstep/detail/thread_guard.hpp>

#pragma GCC visibility push(default)

namespace lockstep {
class ReplicaContext;
class Strategy;
}  // namespace lockstep

namespace lockstep::detail {

struct VariableUpdate;

/// One entry of the thread's stack of contexts.
class [[nodiscard]] ContextFrame : public ThreadGuard<ContextFrame> {
 public:
  /// default_scope: the default strategy's own scope, in which everything answers as outside every scope.
  /// default_context: nothing that is around it counts.
  enum class Mode : std::uint8_t { cross_replica, replica, update, default_scope, default_context };

  ContextFrame(Mode mode, Strategy& strategy, ReplicaContext* replica_context = nullptr,
               int update_index = -1, VariableUpdate* update = nullptr) noexcept;

  /// One that the caller keeps, perhaps for longer than the strategy, whose life this is.
  ContextFrame(Mode mode, Strategy& strategy, std::weak_ptr<const Strategy> life);

  Mode mode() const noexcept { return mode_; }
  /// Whether it is a guard's, or set_strategy's; else a call's of the strategy.
  bool is_kept() const noexcept { return life_.has_value(); }
  /// @throws ContextError  it was destroyed.
  Strategy& strategy() const {
    if (life_ && life_->expired()) raise_strategy_destroyed();
    return *strategy_;
  }
  ReplicaContext* replica_context() const noexcept { return replica_context_; }
  int update_index() const noexcept { return update_index_; }
  /// Null outside `update` of a variable.
  VariableUpdate* update() const noexcept { return update_; }

  /// The innermost entry of all, which ThreadGuard keeps.
  static ContextFrame*& innermost() noexcept;
  /// The innermost entry; null in the default context.
  static const ContextFrame* top() noexcept;
  /// Whether the default strategy's scope is among the entries.
  static bool in_default_scope() noexcept;
  /// Whether this thread is in a call of the strategy's: in a function that it calls, or what that calls.
  static bool is_in_call_of(const Strategy& strategy) noexcept;

 private:
  friend class ThreadGuard<ContextFrame>;
  friend class DefaultContext;
  static constexpr std::string_view kGuardName = "a StrategyScope";
  ContextFrame() noexcept;  // a default context
  [[noreturn]] static void raise_strategy_destroyed();

  Mode mode_;
  Strategy* strategy_;  // null in a default context
  ReplicaContext* replica_context_;
  int update_index_;
  VariableUpdate* update_;
  std::optional<std::weak_ptr<const Strategy>> life_;  // of one that is kept
};

/// The default context on this thread while it lives, whichever scopes it is in: for functions of the user's
/// that are called here as well as on threads of the library's. `set_strategy` throws meanwhile.
class [[nodiscard]] DefaultContext {
 public:
  DefaultContext() noexcept {}

 private:
  ContextFrame frame_;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop

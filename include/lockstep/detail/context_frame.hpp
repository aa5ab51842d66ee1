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
  /// default_scope: the default strategy's own scope, in which every query answers as outside all scopes.
  /// default_context: hides the entries around it.
  enum class Mode : std::uint8_t { cross_replica, replica, update, default_scope, default_context };

  ContextFrame(Mode mode, Strategy& strategy, ReplicaContext* replica_context = nullptr,
               int update_index = -1, VariableUpdate* update = nullptr) noexcept;

  /// An entry that the caller keeps, perhaps for longer than the strategy; `life` tells whether the strategy
  /// still exists.
  ContextFrame(Mode mode, Strategy& strategy, std::weak_ptr<const Strategy> life);

  Mode mode() const noexcept { return mode_; }
  /// Whether a guard or set_strategy made the entry; otherwise a call of the strategy did.
  bool is_kept() const noexcept { return life_.has_value(); }
  /// @throws ContextError  the strategy was destroyed.
  Strategy& strategy() const {
    if (life_ && life_->expired()) raise_strategy_destroyed();
    return *strategy_;
  }
  ReplicaContext* replica_context() const noexcept { return replica_context_; }
  int update_index() const noexcept { return update_index_; }
  /// The update in progress; null outside `update` of a variable.
  VariableUpdate* update() const noexcept { return update_; }

  /// The innermost entry of all modes, which ThreadGuard maintains.
  static ContextFrame*& innermost() noexcept;
  /// The innermost entry; null in the default context.
  static const ContextFrame* top() noexcept;
  /// Whether the default strategy's scope is among the entries.
  static bool in_default_scope() noexcept;
  /// Whether this thread is inside a call of the strategy: in a function that the strategy calls, or deeper.
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
  std::optional<std::weak_ptr<const Strategy>> life_;  // set for a kept entry
};

/// Makes the default context current on this thread while it lives, whichever scopes the thread is in. User
/// functions that run on this thread as well as on the library's threads then see the same context.
/// `set_strategy` throws meanwhile.
class [[nodiscard]] DefaultContext {
 public:
  DefaultContext() noexcept {}

 private:
  ContextFrame frame_;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop

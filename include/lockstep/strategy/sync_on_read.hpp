#pragma once

#include <string_view>

#include <lockstep/detail/thread_guard.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// While it lives, replica functions on this thread, and of the runs that this thread starts, read on_read
/// variables as cross-replica context does: the components combined by the variable's aggregation. Such a
/// read is a collective: every replica must make it, of the same variable.
///
/// `const ls::sync_on_read guard; v.value();`
class [[nodiscard]] sync_on_read : public detail::ThreadGuard<sync_on_read> {
 public:
  sync_on_read() noexcept = default;

  /// Whether one lives on this thread.
  [[nodiscard]] static bool is_active() noexcept;

 private:
  friend class detail::ThreadGuard<sync_on_read>;
  static constexpr std::string_view kGuardName = "a sync_on_read guard";
  static sync_on_read*& innermost() noexcept;
};

}  // namespace lockstep

#pragma GCC visibility pop

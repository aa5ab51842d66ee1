#pragma once

namespace lockstep {

/// While it lives, replica functions on this thread, and of the runs that this thread starts, read on_read
/// variables as cross-replica context does: the components combined by the variable's aggregation. Such a
/// read is a collective: every replica must make it, of the same variable.
///
/// `const ls::sync_on_read guard; v.value();`
class [[nodiscard]] sync_on_read {
 public:
  sync_on_read() noexcept;
  ~sync_on_read();
  sync_on_read(const sync_on_read&) = delete;
  sync_on_read& operator=(const sync_on_read&) = delete;

  /// Whether one lives on this thread.
  static bool is_active() noexcept;
};

}  // namespace lockstep

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// That a process of a group is lost, or cannot go on, or that a collective was given up. It remembers since
/// when the program knows: what was computed with the group is withheld until then at least. Thread safety:
/// any thread.
class Loss {
 public:
  /// A point in time, later than all before.
  using Moment = std::uint64_t;
  static Moment now() noexcept;

  /// @param cause  "worker 1 (10.0.0.2:2222) was lost: its connection was closed". @param is_time_out  a time
  /// limit was over: what needs the results throws CollectiveTimeout, else PeerLost.
  explicit Loss(std::string cause, bool is_time_out = false)
      : cause_(std::move(cause)), is_time_out_(is_time_out) {}

  const std::string& cause() const noexcept { return cause_; }
  bool is_time_out() const noexcept { return is_time_out_; }
  /// To be called before an exception that has the cause is thrown to the program.
  void tell() noexcept;
  /// Whether the program knew it then.
  bool was_told_before(Moment moment) const noexcept {
    const Moment told = told_.load(std::memory_order_acquire);
    return told != 0 && told < moment;
  }

 private:
  const std::string cause_;
  const bool is_time_out_;
  std::atomic<Moment> told_{0};  // 0: never
};

}  // namespace lockstep::backend

#pragma GCC visibility pop

#pragma once

#include <cstdint>

namespace lockstep::detail {

/// Identifies the process that made it. A fork of that process has copies of its objects but none of its
/// threads, so nothing in the fork may wait for those threads, or for anything that they hold.
class Process {
 public:
  Process() noexcept : number_(number()) {}
  /// No process: no process is a fork of it.
  static Process none() noexcept { return Process(0); }

  /// The calling process's number, which increases by one in each fork.
  static std::uint64_t number() noexcept;

  /// Whether the calling process is a fork of the one identified.
  bool is_forked() const noexcept { return number_ != 0 && number_ != number(); }

 private:
  explicit Process(std::uint64_t number) noexcept : number_(number) {}

  std::uint64_t number_;
};

}  // namespace lockstep::detail

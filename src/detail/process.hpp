#pragma once

#include <cstdint>

namespace lockstep::detail {

/// The process that makes it. A fork of that one has copies of its objects, but of its threads none: there
/// nothing may wait for them, nor for what they hold.
class Process {
 public:
  Process() noexcept : number_(number()) {}
  /// No process: none is a fork of it.
  static Process none() noexcept { return Process(0); }

  /// The calling process's: one more in each fork.
  static std::uint64_t number() noexcept;

  /// Whether the calling process is a fork of that one.
  bool is_forked() const noexcept { return number_ != 0 && number_ != number(); }

 private:
  explicit Process(std::uint64_t number) noexcept : number_(number) {}

  std::uint64_t number_;
};

}  // namespace lockstep::detail

#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string_view>

#include <lockstep/communication.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Parses "auto", "automatic", "ring", "nccl", "peer" without regard to case. @throws InvalidArgument  the
/// name is unknown.
[[nodiscard]] CommunicationImplementation parse_communication_implementation(std::string_view text);

/// A field of options: its value, and whether the caller gave it. It converts implicitly from and to T; a
/// given value may equal the default.
template <class T>
class Setting {
 public:
  constexpr Setting() = default;
  [[nodiscard]] constexpr Setting(T value) : value_(value), is_given_(true) {}
  constexpr operator T() const noexcept { return value_; }

  [[nodiscard]] constexpr bool is_given() const noexcept { return is_given_; }
  /// This one if it was given, else `other`.
  [[nodiscard]] constexpr Setting or_else(const Setting& other) const { return is_given_ ? *this : other; }
  /// Whether both were given, or neither, and the values are equal.
  [[nodiscard]] constexpr bool is_same(const Setting& other) const {
    return is_given_ == other.is_given_ && value_ == other.value_;
  }

 private:
  T value_{};
  bool is_given_ = false;
};

/// The same for a duration; it keeps the duration's members, such as `timeout.count()`, and converts from any
/// convertible unit. It can be assigned but not changed in place, so that it stays known whether it was
/// given.
template <>
class Setting<std::chrono::milliseconds> : public std::chrono::milliseconds {
 public:
  constexpr Setting() : std::chrono::milliseconds(0) {}
  template <class Duration>
  requires(!std::same_as<Duration, Setting> &&
           std::convertible_to<const Duration&, std::chrono::milliseconds>) constexpr Setting(const Duration&
                                                                                                  value)
      : std::chrono::milliseconds(value), is_given_(true) {}

  [[nodiscard]] constexpr bool is_given() const noexcept { return is_given_; }
  [[nodiscard]] constexpr Setting or_else(const Setting& other) const { return is_given_ ? *this : other; }
  [[nodiscard]] constexpr bool is_same(const Setting& other) const {
    return is_given_ == other.is_given_ && count() == other.count();
  }

  template <class T>
  void operator+=(const T&) = delete;
  template <class T>
  void operator-=(const T&) = delete;
  template <class T>
  void operator*=(const T&) = delete;
  template <class T>
  void operator/=(const T&) = delete;
  template <class T>
  void operator%=(const T&) = delete;
  void operator++() = delete;
  void operator++(int) = delete;
  void operator--() = delete;
  void operator--(int) = delete;

 private:
  bool is_given_ = false;
};

/// Options of collectives, for a strategy or for one call. A field that a call gives overrides the
/// strategy's, even if it switches something off, as `{.deterministic = false}` and `{.timeout = 0ms}` do.
struct CommunicationOptions {
  /// Approximate size of the packs that carry batches, in bytes; 0: automatic. GPUs pack by themselves what
  /// is small; there this is the size of PackedReduction's packs alone. Negative: InvalidArgument.
  Setting<std::int64_t> bytes_per_pack{};
  /// The longest time that a rank waits for the others before it throws CollectiveTimeout; 0: no limit. It is
  /// a limit for each rank's thread, in the call, and for its GPU, from when the stream comes to the call,
  /// until it has completed it there. Graphs of Strategy::function have the limits of their collectives
  /// together, for each launch, or none if one of those has none. What the program captures has none.
  /// When a GPU waits for too long, the communicator is aborted, the log says for whom it waited and what
  /// every rank did last, and waits for work of these GPUs throw CollectiveTimeout; a thread of the library's
  /// own looks. A kernel of the program's that does not end keeps its own GPU. A strategy's `run` throws it
  /// once all replicas' functions have returned, because they use the caller's memory. When the time-out has
  /// ended such a function, the log reports it at once, and last_failures() lists it. Between host replicas
  /// on several hosts it is also the limit of each step that moves some MiB of data: where one takes longer
  /// (a lost link), all workers throw PeerLost, with the number of the process that was waited for.
  Setting<std::chrono::milliseconds> timeout{};
  Setting<CommunicationImplementation> implementation{};  ///< Default: automatic.
  /// Reductions combine in rank order on several GPUs too, so that results repeat bit for bit, as they always
  /// do on the host and on virtual devices. An all_reduce between GPUs that reach each other's memory goes by
  /// the library's own kernels. Otherwise every rank first gathers all contributions by NCCL: this takes
  /// num_ranks times the memory and the traffic, and a mean of float32 or float64 whose sum overflows is
  /// infinite.
  Setting<bool> deterministic{};
  /// The longest all_reduce, in bytes, that `automatic` gives to the library's own kernels, which need not
  /// wait for NCCL's protocols; 0: none. Default: the environment variable LOCKSTEP_PEER_BYTES, read when a
  /// communicator is made, or else 512 KiB between up to four GPUs and 256 KiB between more. That is where
  /// published kernels of this kind are overtaken (vLLM's and NVIDIA's custom all-reduces); the library has
  /// not measured it. Negative: InvalidArgument. Results then have other bits than NCCL's: see Communicator.
  Setting<std::int64_t> peer_bytes{};
  /// Names the call in errors, reports (its last 32 bytes), the log of plans and, as an NVTX range, in
  /// profilers of GPUs. Must outlive the call, or the strategy.
  std::string_view label{};
  CommunicatorConfig communicator{};  ///< What a strategy, or Communicator::create, makes communicators with.

  /// These options of a call over a strategy's `defaults`. @throws InvalidArgument  a field is out of range.
  [[nodiscard]] CommunicationOptions merged_over(const CommunicationOptions& defaults) const;
  /// Whether the same fields were given, with equal values.
  [[nodiscard]] bool operator==(const CommunicationOptions& other) const;
};

}  // namespace lockstep

#pragma GCC visibility pop

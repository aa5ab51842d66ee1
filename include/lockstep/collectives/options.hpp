#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// Which library carries collectives between GPUs. Host replicas use shared memory: the first of a
/// communicator's calls with `nccl` then warns, to the log.
enum class CommunicationImplementation : std::uint8_t { automatic, ring, nccl };

/// Parses "auto", "automatic", "ring", "nccl" without regard to case. @throws InvalidArgument  the name is
/// unknown.
[[nodiscard]] CommunicationImplementation parse_communication_implementation(std::string_view text);

/// A field of options: its value, and whether it was given. Implicit from a value, also from the one that it
/// has when nobody gives one; used as that value.
template <class T>
class Setting {
 public:
  constexpr Setting() = default;
  [[nodiscard]] constexpr Setting(T value) : value_(value), is_given_(true) {}
  constexpr operator T() const noexcept { return value_; }

  [[nodiscard]] constexpr bool is_given() const noexcept { return is_given_; }
  /// This one if it was given, else `other`.
  [[nodiscard]] constexpr Setting or_else(const Setting& other) const { return is_given_ ? *this : other; }

 private:
  T value_{};
  bool is_given_ = false;
};

/// The same of a duration, which keeps its members: `timeout.count()`. From any unit that converts; it is
/// assigned, not changed in place, so that whether it was given stays known.
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

/// Options of collectives, of a strategy or of one call. Fields that a call gives win over the strategy's,
/// also where they switch something off, as `{.deterministic = false}` and `{.timeout = 0ms}` do.
struct CommunicationOptions {
  /// Batches travel in packs of about so many bytes; 0: automatic. Negative: InvalidArgument.
  Setting<std::int64_t> bytes_per_pack{};
  /// Whoever has waited so long for the others throws CollectiveTimeout, then. 0: no limit. A strategy's
  /// `run` throws it when all replicas' functions have returned, as they use the caller's memory; at the
  /// time-out, once it has ended a function, the log says so and last_failures() has it.
  Setting<std::chrono::milliseconds> timeout{};
  Setting<CommunicationImplementation> implementation{};  ///< Otherwise automatic.
  /// Reductions combine in rank order on NCCL too, so that results repeat bit for bit, as they always do on
  /// the host and on virtual devices. There every rank gathers all contributions first: num_ranks times the
  /// memory and the traffic, and a mean of float32 or float64 whose sum overflows is infinite.
  Setting<bool> deterministic{};

  /// This call's options over a strategy's. @throws InvalidArgument  a negative field.
  [[nodiscard]] CommunicationOptions merged_over(const CommunicationOptions& defaults) const;
};

}  // namespace lockstep

#pragma GCC visibility pop

#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// Which library carries collectives between GPUs. Host replicas use shared memory: the first of a
/// communicator's calls with `nccl` then warns, to the log.
enum class CommunicationImplementation : std::uint8_t { automatic, ring, nccl };

/// Parses "auto", "automatic", "ring", "nccl" without regard to case. @throws InvalidArgument  the name is
/// unknown.
CommunicationImplementation parse_communication_implementation(std::string_view text);

/// Options of collectives, of a strategy or of one call. A field of the call wins if it is not the default.
struct CommunicationOptions {
  std::int64_t bytes_per_pack =
      0;  ///< Batches travel in packs of about so many bytes; 0: automatic. Negative: InvalidArgument.
  /// Whoever has waited so long for the others throws CollectiveTimeout, then. 0: no limit. A strategy's
  /// `run` throws it when all replicas' functions have returned, as they use the caller's memory; at the
  /// time-out, once it has ended a function, the log says so and last_failures() has it.
  std::chrono::milliseconds timeout{0};
  CommunicationImplementation implementation = CommunicationImplementation::automatic;
  /// Reductions combine in rank order on NCCL too, so that results repeat bit for bit, as they always do on
  /// the host and on virtual devices. There every rank gathers all contributions first: num_ranks times the
  /// memory and the traffic, and a mean of float32 or float64 whose sum overflows is infinite.
  bool deterministic = false;

  /// This call's options over a strategy's. @throws InvalidArgument  a negative field.
  CommunicationOptions merged_over(const CommunicationOptions& defaults) const;
};

}  // namespace lockstep

#pragma GCC visibility pop

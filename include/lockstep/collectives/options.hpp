#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Which library carries collectives between GPUs. `nccl` without GPUs warns and falls back; host replicas
/// use shared memory.
enum class CommunicationImplementation : std::uint8_t { automatic, ring, nccl };

/// Parses "auto", "automatic", "ring", "nccl" without regard to case. @throws InvalidArgument  the name is
/// unknown.
CommunicationImplementation parse_communication_implementation(std::string_view text);

/// Options of collectives, of a strategy or of one call. A field of the call wins if it is not the default.
struct CommunicationOptions {
  std::int64_t bytes_per_pack =
      0;  ///< Batches travel in packs of about so many bytes; 0: automatic. Negative: InvalidArgument.
  std::chrono::milliseconds timeout{
      0};  ///< After this long without all replicas: CollectiveTimeout. 0: none.
  CommunicationImplementation implementation = CommunicationImplementation::automatic;
  bool deterministic = false;  ///< Bitwise equal results from run to run on NCCL too (always so on the host).

  /// This call's options over a strategy's. @throws InvalidArgument  a negative field.
  CommunicationOptions merged_over(const CommunicationOptions& defaults) const;
};

}  // namespace lockstep

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace lockstep::cuda {

/// The process's streams whose handles only this library has. They are in no capture but those that the
/// library lets them join, so CUDA need not be asked about them before each call. An engine's own streams,
/// and those whose handle it has been given, are not among them. Takes no lock. Thread-safe.
class PrivateStreams {
 public:
  static PrivateStreams& instance();

  /// `stream` was made. Where there is no room, CUDA is asked about it.
  void add(cudaStream_t stream) noexcept;
  /// `stream` will be destroyed, or its handle is given out.
  void remove(cudaStream_t stream) noexcept;
  /// An event's handle is given out: the program may record it in a capture.
  void give_out_event() noexcept { events_are_out_ = true; }
  bool events_are_out() const noexcept { return events_are_out_; }

  /// Whether a stream that had this handle before is the same one. An engine may have destroyed its own, and
  /// made another with the handle.
  bool is_lasting(cudaStream_t stream) const noexcept { return find(stream) != nullptr; }

  /// `stream` is in a capture now, or may be. To be called when it is.
  void note_capture(cudaStream_t stream) noexcept;
  /// What is known of a stream: 0: it is in no capture; else CUDA must be asked.
  std::uint64_t last_capture(cudaStream_t stream) const noexcept;
  /// CUDA has said that `stream` is in no capture. @param known  last_capture(), from before CUDA was asked.
  void note_none(cudaStream_t stream, std::uint64_t known) noexcept;

 private:
  struct Slot {
    std::atomic<std::uintptr_t> stream{kNever};
    std::atomic<std::uint64_t> last{0};  // number of its last note_capture; 0: it is in none
  };
  static constexpr std::uintptr_t kNever = 0, kNoMore = 1;  // no stream's handle of its own
  static constexpr std::size_t kNumSlots = 1024, kMostTries = 32;

  /// The stream's slot; null: it is not private.
  const Slot* find(cudaStream_t stream) const noexcept;
  Slot* find(cudaStream_t stream) noexcept {
    return const_cast<Slot*>(static_cast<const PrivateStreams*>(this)->find(stream));
  }
  static std::size_t first_slot(std::uintptr_t stream) { return stream / 16 % kNumSlots; }

  std::array<Slot, kNumSlots> slots_;
  std::atomic<std::uint64_t> num_captures_{0};
  std::atomic<bool> events_are_out_{false};
};

}  // namespace lockstep::cuda

#include "graphs/private_streams.hpp"

#include <limits>

#include "detail/immortal.hpp"

namespace lockstep::cuda {

PrivateStreams& PrivateStreams::instance() { return lockstep::detail::immortal<PrivateStreams>(); }

const PrivateStreams::Slot* PrivateStreams::find(cudaStream_t stream) const noexcept {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (handle <= kNoMore) return nullptr;
  for (std::size_t k = 0; k < kMostTries; ++k) {
    const Slot& slot = slots_[(first_slot(handle) + k) % kNumSlots];
    const std::uintptr_t here = slot.stream.load(std::memory_order_acquire);
    if (here == handle) return &slot;
    if (here == kNever) return nullptr;
  }
  return nullptr;
}

void PrivateStreams::add(cudaStream_t stream) noexcept {
  if (find(stream) != nullptr) return;
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  for (std::size_t k = 0; k < kMostTries; ++k) {
    Slot& slot = slots_[(first_slot(handle) + k) % kNumSlots];
    std::uintptr_t here = slot.stream.load(std::memory_order_relaxed);
    if (here > kNoMore) continue;
    if (slot.stream.compare_exchange_strong(here, handle, std::memory_order_acq_rel)) return;
  }
}

void PrivateStreams::remove(cudaStream_t stream) noexcept {
  Slot* const slot = find(stream);
  if (slot == nullptr) return;
  slot->last = 0;
  slot->stream.store(kNoMore, std::memory_order_release);
}

void PrivateStreams::note_capture(cudaStream_t stream) noexcept {
  if (Slot* const slot = find(stream)) slot->last = ++num_captures_;
}

std::uint64_t PrivateStreams::last_capture(cudaStream_t stream) const noexcept {
  const Slot* const slot = find(stream);
  return slot != nullptr ? slot->last.load() : std::numeric_limits<std::uint64_t>::max();
}

void PrivateStreams::note_none(cudaStream_t stream, std::uint64_t known) noexcept {
  if (Slot* const slot = find(stream)) slot->last.compare_exchange_strong(known, 0);
}

}  // namespace lockstep::cuda

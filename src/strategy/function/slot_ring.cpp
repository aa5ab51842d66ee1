#include "strategy/function/slot_ring.hpp"

#include <atomic>

#include <lockstep/backend/device_backend.hpp>

namespace lockstep::detail {

namespace {

backend::GraphBackend& graphs_of(const StreamRef& stream) { return *stream.device_backend().graphs(); }

}  // namespace

SlotRing::SlotRing(std::size_t slot_bytes, StreamRef stream)
    : slot_bytes_(slot_bytes),
      slots_(std::make_shared<const PinnedBuffer>(slot_bytes * kNumSlots + sizeof(std::uint64_t),
                                                  stream.device())) {
  const StreamScope here(stream);
  block_ = Tensor::empty(Shape(static_cast<std::int64_t>(slot_bytes)), DType::u8, stream.device());
  position_ = Tensor::empty({1}, DType::u64, stream.device());
  *reported() = 0;
  graphs_of(stream).keep(stream.handle(), slots_);
  graphs_of(stream).take_slot(block_.view().data, slots_->bytes().data(), slot_bytes, kNumSlots, position(),
                              stream.handle());
}

std::byte* SlotRing::slot(std::uint64_t launch) const {
  return slots_->bytes().data() + launch % kNumSlots * slot_bytes_;
}

std::uint64_t* SlotRing::reported() const {
  return reinterpret_cast<std::uint64_t*>(slots_->bytes().data() + slot_bytes_ * kNumSlots);
}

void SlotRing::enqueue_report(StreamRef stream) const {
  graphs_of(stream).report(reported(), position(), stream.handle());
}

void SlotRing::reset(StreamRef stream) {
  const StreamScope here(stream);
  position_.fill_(0);
  stream.synchronize();
}

std::uint64_t SlotRing::num_ended() const {
  return std::atomic_ref(*reported()).load(std::memory_order_acquire);
}

}  // namespace lockstep::detail

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/dtype.hpp>
#include <lockstep/report.hpp>
#include <lockstep/tensor_view.hpp>

#include "detail/bounded_text.hpp"
#include "trace/record_ring.hpp"

namespace lockstep::detail {

/// A call of a rank, as it was recorded.
struct CallRecord {
  std::uint64_t number = 0;    // equal in the calls of a meeting's ranks, and increasing
  std::uint64_t call = 0;      // as messages count
  std::uint64_t tick = 0;      // detail::ticks() when the call was made
  std::string_view operation;  // static
  CallState state = CallState::waiting;
  DType dtype = DType::f32;  // this and the extents are the first tensor's
  std::size_t rank = 0;
  std::array<std::uint32_t, 4> extents{};  // saturated
  std::size_t num_tensors = 0;
  std::uint64_t size_bytes = 0;  // of all tensors
  std::array<char, 32> label_text{}, region_text{};
  std::size_t label_size = 0, region_size = 0;

  std::string_view label() const noexcept { return {label_text.data(), label_size}; }
  std::string_view region() const noexcept { return {region_text.data(), region_size}; }
  /// "[10] float32 and 2 more tensors".
  void put_operands(BoundedText<256>& out) const noexcept;
  /// "all_reduce(sum) of [10] float32, 'grad/3', in 'train'".
  void put(BoundedText<256>& out) const noexcept;
};

/// The newest calls of a rank: the flight recorder, which is always on. The thread that drives the rank adds
/// them; any thread may read them meanwhile, also in a signal handler.
class alignas(64) CallRing {
 public:
  /// Room for as many calls of each rank as LOCKSTEP_CALLS says, or 63, and for one that is being written.
  static std::size_t default_capacity() noexcept;

  explicit CallRing(std::size_t capacity = default_capacity()) : ring_(capacity) {}

  /// A call begins: it waits for the other ranks. @param operation  static. @param enqueues  whether it only
  /// enqueues work.
  void begin(std::uint64_t number, std::uint64_t call, std::string_view operation,
             std::span<const TensorView> tensors, std::string_view label, bool enqueues) noexcept;
  /// Of the call that began last.
  void set_state(CallState state) noexcept {
    if (newest_ != nullptr)
      newest_->set(kMeta, (newest_->get(kMeta) & ~kStateMask) | static_cast<std::uint64_t>(state));
  }
  /// The call that began last has returned, or thrown; nothing to do where its state is known.
  void end(bool has_thrown) noexcept {
    if (newest_ == nullptr) return;
    const auto state = static_cast<CallState>(newest_->get(kMeta) & kStateMask);
    if (state > CallState::started) return;
    set_state(has_thrown ? CallState::failed : enqueues_ ? CallState::enqueued : CallState::completed);
  }

  /// A device has come to the rank's calls before `number`, or has completed them. Any one thread.
  void set_begun_on_device(std::uint64_t number) noexcept { begun_on_device_.store(number); }
  void set_done_on_device(std::uint64_t number) noexcept { done_on_device_.store(number); }
  /// Calls before it have begun on the device, as far as is known.
  std::uint64_t num_begun_on_device() const noexcept { return begun_on_device_.load(); }

  std::uint64_t num_begun() const noexcept { return ring_.num_added(); }
  std::uint64_t first() const noexcept {
    const std::uint64_t end = num_begun();
    return end > ring_.capacity() ? end - ring_.capacity() : 0;
  }
  /// @return whether call `index`, counted from 0, is still there.
  bool read(std::uint64_t index, CallRecord& record) const noexcept;
  /// @return whether there is one.
  bool read_newest(CallRecord& record) const noexcept {
    const std::uint64_t end = num_begun();
    return end > 0 && read(end - 1, record);
  }
  /// The call of that number. @return whether it is there.
  bool find(std::uint64_t number, CallRecord& record) const noexcept;

 private:
  using Ring = RecordRing<16>;
  // Each name is in a cache line that is written only where there is one.
  static constexpr std::size_t kNumber = 0, kCall = 1, kTick = 2, kOperation = 3, kMeta = 4, kBytes = 5,
                               kExtents = 6, kLabel = 8, kRegion = 12;
  static constexpr std::uint64_t kStateMask = 0xff;

  Ring ring_;
  Ring::Slot* newest_ = nullptr;
  bool enqueues_ = false;  // the newest call
  std::atomic<std::uint64_t> begun_on_device_{0}, done_on_device_{0};
};

}  // namespace lockstep::detail

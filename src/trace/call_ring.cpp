#include "trace/call_ring.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "detail/ticks.hpp"
#include "detail/warn.hpp"
#include "trace/region.hpp"

namespace lockstep::detail {

namespace {

constexpr std::size_t kTextWords = 4;
static_assert(RegionPath::kMaxBytes == kTextWords * sizeof(std::uint64_t));

// Of meta, beside the state in its lowest byte.
constexpr unsigned kDType = 8, kRank = 16, kNumTensors = 24, kOperationSize = 40, kLabelSize = 48,
                   kRegionSize = 56;

/// @return how many of the last bytes of the text were put.
template <class Slot>
std::uint64_t put_text(Slot& slot, std::size_t begin, std::string_view text) noexcept {
  if (text.empty()) return 0;
  std::array<std::uint64_t, kTextWords> words{};
  const std::size_t size = std::min(text.size(), sizeof words);
  std::memcpy(words.data(), text.data() + text.size() - size, size);
  for (std::size_t i = 0; i < kTextWords; ++i) slot.set(begin + i, words[i]);
  return size;
}

template <class Slot>
void get_text(const Slot& slot, std::size_t begin, std::size_t size, std::array<char, 32>& text) noexcept {
  if (size == 0) return;
  std::array<std::uint64_t, kTextWords> words{};
  for (std::size_t i = 0; i < kTextWords; ++i) words[i] = slot.get(begin + i);
  std::memcpy(text.data(), words.data(), text.size());
}

}  // namespace

std::size_t CallRing::default_capacity() noexcept {
  constexpr std::size_t kUsual = 64, kMost = (1 << 16) - 1;
  const char* const text = std::getenv("LOCKSTEP_CALLS");
  if (text == nullptr || *text == '\0') return kUsual;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  if (error == std::errc() && *end == '\0' && number <= kMost)
    return number == 0 ? 0 : std::bit_ceil(number + 1);
  warn(
      "LOCKSTEP_CALLS is how many calls of each rank are kept for reports, at most 65535. It is not such a "
      "number, and 63 are kept");
  return kUsual;
}

void CallRing::begin(std::uint64_t number, std::uint64_t call, std::string_view operation,
                     std::span<const TensorView> tensors, std::string_view label, bool enqueues) noexcept {
  newest_ = ring_.next();
  enqueues_ = enqueues;
  if (newest_ == nullptr) return;
  Ring::Slot& slot = *newest_;
  std::uint64_t size_bytes = 0, meta = 0;
  for (const TensorView& tensor : tensors) size_bytes += static_cast<std::uint64_t>(tensor.nbytes());
  if (!tensors.empty()) {
    const TensorView& first = tensors.front();
    const auto rank = static_cast<std::size_t>(first.shape.rank());
    meta = static_cast<std::uint64_t>(first.dtype) << kDType | static_cast<std::uint64_t>(rank) << kRank;
    const auto extent = [&](std::size_t axis) {
      constexpr std::int64_t kMost = 0xffff'ffff;
      return axis < rank ? static_cast<std::uint64_t>(std::min(first.shape[axis], kMost)) : 0;
    };
    slot.set(kExtents, extent(0) | extent(1) << 32);
    if (rank > 2) slot.set(kExtents + 1, extent(2) | extent(3) << 32);
  }
  meta |= std::min<std::uint64_t>(tensors.size(), 0xffff) << kNumTensors |
          std::min<std::uint64_t>(operation.size(), 0xff) << kOperationSize;
  meta |= put_text(slot, kLabel, label) << kLabelSize;
  meta |= put_text(slot, kRegion, RegionPath::own().view()) << kRegionSize;
  slot.set(kNumber, number);
  slot.set(kCall, call);
  slot.set(kTick, ticks());
  slot.set(kOperation, reinterpret_cast<std::uintptr_t>(operation.data()));
  slot.set(kBytes, size_bytes);
  slot.set(kMeta, meta | static_cast<std::uint64_t>(CallState::waiting));
  ring_.publish();
}

bool CallRing::read(std::uint64_t index, CallRecord& record) const noexcept {
  if (index < first() || index >= num_begun()) return false;
  const Ring::Slot& slot = ring_[index];
  const std::uint64_t meta = slot.get(kMeta);
  record.number = slot.get(kNumber);
  record.call = slot.get(kCall);
  record.tick = slot.get(kTick);
  record.state = static_cast<CallState>(meta & kStateMask);
  record.dtype = static_cast<DType>(meta >> kDType & 0xff);
  record.rank = meta >> kRank & 0xff;
  record.num_tensors = meta >> kNumTensors & 0xffff;
  record.size_bytes = slot.get(kBytes);
  record.label_size = meta >> kLabelSize & 0xff;
  record.region_size = meta >> kRegionSize;
  for (std::size_t axis = 0; axis < record.extents.size(); ++axis)
    record.extents[axis] = static_cast<std::uint32_t>(slot.get(kExtents + axis / 2) >> (axis % 2 * 32));
  get_text(slot, kLabel, record.label_size, record.label_text);
  get_text(slot, kRegion, record.region_size, record.region_text);
  record.operation = {reinterpret_cast<const char*>(slot.get(kOperation)), meta >> kOperationSize & 0xff};
  if (index < ring_.num_overwritten()) return false;
  if (record.state == CallState::enqueued) {
    if (record.number < done_on_device_.load())
      record.state = CallState::completed;
    else if (record.number < begun_on_device_.load())
      record.state = CallState::running;
  }
  return true;
}

bool CallRing::find(std::uint64_t number, CallRecord& record) const noexcept {
  std::uint64_t begin = first(), end = num_begun();
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    if (!read(middle, record) || record.number < number)
      begin = middle + 1;
    else if (record.number > number)
      end = middle;
    else
      return true;
  }
  return false;
}

void CallRecord::put_operands(BoundedText<256>& out) const noexcept {
  if (num_tensors == 0) return;
  out << "[";
  for (std::size_t axis = 0; axis < std::min(rank, extents.size()); ++axis)
    out << (axis == 0 ? "" : ", ") << extents[axis];
  out << (rank > extents.size() ? ", ...] " : "] ") << name(dtype);
  if (num_tensors > 1)
    out << " and " << num_tensors - 1 << (num_tensors == 2 ? " more tensor" : " more tensors");
}

void CallRecord::put(BoundedText<256>& out) const noexcept {
  out << operation;
  if (num_tensors > 0) {
    out << " of ";
    put_operands(out);
  }
  if (label_size > 0) out << ", '" << label() << "'";
  if (region_size > 0) out << ", in '" << region() << "'";
}

}  // namespace lockstep::detail

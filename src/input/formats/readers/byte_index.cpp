// Compiled once for each instruction set; the best one that the machine has is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "input/formats/readers/byte_index.cpp"
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <hwy/highway.h>

#include "input/formats/readers/byte_index.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Writes the places of the wanted bytes in whole blocks, by fours, as simdjson does by eights (Langdale and
/// Lemire, "Parsing gigabytes of JSON per second", 3.2): most blocks have fewer, and need no loop.
/// @return the number of places.
std::size_t index_blocks(const std::uint8_t* text, std::size_t num_blocks, const char* wanted,
                         std::uint32_t* places) {
  const hn::CappedTag<std::uint8_t, ByteIndex::kBlockBytes> lanes;
  const auto all = [&](int i) { return hn::Set(lanes, static_cast<std::uint8_t>(wanted[i])); };
  const auto a = all(0), b = all(1), c = all(2);
  std::uint32_t* next = places;
  for (std::size_t block = 0; block < num_blocks; ++block) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < ByteIndex::kBlockBytes; i += hn::Lanes(lanes)) {
      const auto bytes = hn::LoadU(lanes, text + block * ByteIndex::kBlockBytes + i);
      const auto is_any = hn::Or(hn::Or(hn::Eq(bytes, a), hn::Eq(bytes, b)), hn::Eq(bytes, c));
      std::array<std::uint8_t, 8> part{};
      hn::StoreMaskBits(lanes, is_any, part.data());
      std::uint64_t word = 0;
      std::memcpy(&word, part.data(), sizeof word);
      bits |= word << i;
    }
    const int count = std::popcount(bits);
    const auto first = static_cast<std::uint32_t>(block * ByteIndex::kBlockBytes);
    for (int done = 0; done < count; done += 4) {
      for (int i = 0; i < 4; ++i) {
        next[done + i] = first + static_cast<std::uint32_t>(std::countr_zero(bits));
        bits &= bits - 1;
      }
    }
    next += count;
  }
  return static_cast<std::size_t>(next - places);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(index_blocks);

void ByteIndex::search(const char* end) {
  window_ = searched_;
  const std::size_t size = std::min(kWindowBytes, static_cast<std::size_t>(end - window_));
  searched_ = window_ + size;
  next_ = 0;
  size_ = HWY_DYNAMIC_DISPATCH(index_blocks)(reinterpret_cast<const std::uint8_t*>(window_),
                                             (size + kBlockBytes - 1) / kBlockBytes, bytes_.data(),
                                             places_.get());
  while (size_ > 0 && places_[size_ - 1] >= size) --size_;  // what lies behind the text
}

}  // namespace lockstep::detail
#endif

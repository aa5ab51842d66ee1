// Compiled once for each instruction set; the best one that the machine has is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "input/formats/readers/byte_finder.cpp"
#include <hwy/foreach_target.h>
//
#include <array>
#include <cstring>

#include <hwy/highway.h>

#include "input/formats/readers/byte_finder.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

std::uint64_t compare_block(const std::uint8_t* block, const char* wanted) {
  const hn::CappedTag<std::uint8_t, ByteFinder::kBlockBytes> lanes;
  const auto all = [&](int i) { return hn::Set(lanes, static_cast<std::uint8_t>(wanted[i])); };
  const auto a = all(0), b = all(1), c = all(2), d = all(3);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < ByteFinder::kBlockBytes; i += hn::Lanes(lanes)) {
    const auto bytes = hn::LoadU(lanes, block + i);
    const auto is_any =
        hn::Or(hn::Or(hn::Eq(bytes, a), hn::Eq(bytes, b)), hn::Or(hn::Eq(bytes, c), hn::Eq(bytes, d)));
    std::array<std::uint8_t, 8> part{};
    hn::StoreMaskBits(lanes, is_any, part.data());
    std::uint64_t word = 0;
    std::memcpy(&word, part.data(), sizeof word);
    bits |= word << i;
  }
  return bits;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(compare_block);

std::uint64_t ByteFinder::compare(const char* block, const std::array<char, 4>& bytes) {
  return HWY_DYNAMIC_DISPATCH(compare_block)(reinterpret_cast<const std::uint8_t*>(block), bytes.data());
}

}  // namespace lockstep::detail
#endif

#include "floor.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::bench {
namespace {

// Buffers hold any type, at any address when they are misaligned on purpose.
using Word [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;

// A loop over the ranks inside would stop the compiler from vectorising over the elements; with a constant
// number it is unrolled, and all streams are in flight at once, which doubles the bandwidth of a pass over
// one stream at a time.
template <int kRanks, class T>
void pass(std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin, std::int64_t end) {
  std::array<const T*, kRanks> in;
  std::array<T*, kRanks> out;
  for (int r = 0; r < kRanks; ++r) {
    in[r] = reinterpret_cast<const T*>(inputs[r] + begin);
    out[r] = reinterpret_cast<T*>(outputs[r] + begin);
  }
  const std::int64_t count = (end - begin) / static_cast<std::int64_t>(sizeof(T));
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    T combined = in[0][i];
#pragma GCC unroll 16
    for (int r = 1; r < kRanks; ++r) combined |= in[r][i];
#pragma GCC unroll 16
    for (int r = 0; r < kRanks; ++r) out[r][i] = combined;
  }
}

constexpr int kMostUnrolled = 16;

using Pass = void (*)(std::byte* const*, std::byte* const*, std::int64_t, std::int64_t);

template <class T, int... kRanks>
constexpr std::array<Pass, sizeof...(kRanks)> passes(std::integer_sequence<int, kRanks...>) {
  return {&pass<kRanks + 1, T>...};
}

// More ranks than that: one after the other, over blocks that stay in the first-level cache.
void blocked_pass(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::int64_t begin,
                  std::int64_t end) {
  constexpr std::int64_t kBlock = 4096;
  std::array<std::byte, kBlock> block;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t size = std::min(kBlock, end - at);
    block.fill(std::byte{});
    for (const std::byte* input : inputs)
      for (std::int64_t i = 0; i < size; ++i) block[static_cast<std::size_t>(i)] |= input[at + i];
    for (std::byte* output : outputs)
      for (std::int64_t i = 0; i < size; ++i) output[at + i] = block[static_cast<std::size_t>(i)];
  }
}

}  // namespace

void floor_pass(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::int64_t begin,
                std::int64_t end) {
  static constexpr auto kSequence = std::make_integer_sequence<int, kMostUnrolled>();
  static constexpr auto kWordPasses = passes<Word>(kSequence);
  static constexpr auto kBytePasses = passes<std::uint8_t>(kSequence);
  const std::size_t num_ranks = inputs.size();
  if (num_ranks > kMostUnrolled) return blocked_pass(inputs, outputs, begin, end);

  const std::int64_t middle = end - (end - begin) % static_cast<std::int64_t>(sizeof(Word));
  kWordPasses[num_ranks - 1](inputs.data(), outputs.data(), begin, middle);
  kBytePasses[num_ranks - 1](inputs.data(), outputs.data(), middle, end);
}

}  // namespace lockstep::bench

#include "measure/floor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "detail/independent_elements.hpp"

namespace lockstep::bench {
namespace {

// Buffers hold any type, at any address when they are misaligned on purpose.
using Word [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;
constexpr std::int64_t kWordBytes = 8;

// An inner loop over the ranks would keep the compiler from vectorising over the elements: up to this many
// ranks, their number is a constant.
constexpr int kMostUnrolled = 16;

using Pass = void (*)(std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
                      std::int64_t end);

template <int kInputs, int kOutputs>
void interleaved_pass(std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
                      std::int64_t end) {
  const Word* in[kInputs];  // not std::array: template arguments lose attributes
  Word* out[kOutputs];
  for (std::size_t r = 0; r < kInputs; ++r) in[r] = reinterpret_cast<const Word*>(inputs[r] + begin);
  for (std::size_t r = 0; r < kOutputs; ++r) out[r] = reinterpret_cast<Word*>(outputs[r] + begin);
  const std::int64_t count = (end - begin) / kWordBytes;
  LOCKSTEP_INDEPENDENT_ELEMENTS
  for (std::int64_t i = 0; i < count; ++i) {
    Word combined = in[0][i];
#pragma GCC unroll 16
    for (std::size_t r = 1; r < kInputs; ++r) combined |= in[r][i];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kOutputs; ++r) out[r][i] = combined;
  }
}

// The loops for n + 1 ranks at index n: from all to all, from one to all, from all to one.
struct InterleavedPasses {
  std::array<Pass, kMostUnrolled> all_to_all, one_to_all, all_to_one;
};

template <int... kRanks>
constexpr InterleavedPasses interleaved_passes(std::integer_sequence<int, kRanks...>) {
  return {{&interleaved_pass<kRanks + 1, kRanks + 1>...},
          {&interleaved_pass<1, kRanks + 1>...},
          {&interleaved_pass<kRanks + 1, 1>...}};
}

// Null where there is no loop for these numbers.
Pass find_interleaved_pass(std::size_t num_inputs, std::size_t num_outputs) {
  static constexpr auto kPasses = interleaved_passes(std::make_integer_sequence<int, kMostUnrolled>());
  const std::size_t most = std::max(num_inputs, num_outputs);
  if (most > kMostUnrolled) return nullptr;
  if (num_inputs == num_outputs) return kPasses.all_to_all[most - 1];
  if (num_inputs == 1) return kPasses.one_to_all[most - 1];
  return num_outputs == 1 ? kPasses.all_to_one[most - 1] : nullptr;
}

// block |= inputs; both in whole words.
using Combine = void (*)(std::byte* block, std::byte* const* inputs, std::int64_t begin, std::int64_t size);

template <int kRanks>
void combine(std::byte* block, std::byte* const* inputs, std::int64_t begin, std::int64_t size) {
  const Word* in[kRanks];
  for (std::size_t r = 0; r < kRanks; ++r) in[r] = reinterpret_cast<const Word*>(inputs[r] + begin);
  Word* const words = reinterpret_cast<Word*>(block);
  LOCKSTEP_INDEPENDENT_ELEMENTS
  for (std::int64_t i = 0; i < size / kWordBytes; ++i) {
    Word combined = words[i];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRanks; ++r) combined |= in[r][i];
    words[i] = combined;
  }
}

template <int... kRanks>
constexpr std::array<Combine, sizeof...(kRanks)> combines(std::integer_sequence<int, kRanks...>) {
  return {&combine<kRanks + 1>...};
}

// The block stays in the first-level cache.
void blocked_pass(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::int64_t begin,
                  std::int64_t end) {
  static constexpr auto kCombines = combines(std::make_integer_sequence<int, kMostUnrolled>());
  constexpr std::int64_t kBlock = 4096;
  std::array<std::byte, kBlock> block;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t size = std::min(kBlock, end - at);
    block.fill(std::byte{});
    for (std::size_t first = 0; first < inputs.size(); first += kMostUnrolled) {
      const std::size_t some = std::min<std::size_t>(kMostUnrolled, inputs.size() - first);
      kCombines[some - 1](block.data(), inputs.data() + first, at, size);
    }
    for (std::byte* const output : outputs) std::copy_n(block.data(), size, output + at);
  }
}

}  // namespace

void floor_pass(FloorLoop loop, std::span<std::byte* const> inputs, std::span<std::byte* const> outputs,
                std::int64_t begin, std::int64_t end) {
  const std::int64_t middle = end - (end - begin) % kWordBytes;
  const Pass interleaved = find_interleaved_pass(inputs.size(), outputs.size());
  if (loop == FloorLoop::blocked || interleaved == nullptr)
    blocked_pass(inputs, outputs, begin, middle);
  else
    interleaved(inputs.data(), outputs.data(), begin, middle);
  for (std::int64_t i = middle; i < end; ++i) {  // the rest, shorter than a word
    std::byte combined{};
    for (const std::byte* input : inputs) combined |= input[i];
    for (std::byte* output : outputs) output[i] = combined;
  }
}

void floor_reduction(std::span<const std::byte> input, std::span<std::byte> output) {
  constexpr std::size_t kLanes = 16;  // several vectors, so that no operation waits for the previous one
  std::array<std::uint64_t, kLanes> lanes{};
  const Word* const words = reinterpret_cast<const Word*>(input.data());
  const std::size_t num_words = input.size() / sizeof(Word);
  std::size_t i = 0;
  for (; i + kLanes <= num_words; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] |= words[i + lane];
  for (; i < num_words; ++i) lanes[0] |= words[i];
  std::uint64_t combined = 0;
  std::memcpy(&combined, input.data() + num_words * sizeof(Word), input.size() % sizeof(Word));
  for (const std::uint64_t lane : lanes) combined |= lane;

  Word* const results = reinterpret_cast<Word*>(output.data());
  const std::size_t num_results = output.size() / sizeof(Word);
  for (std::size_t k = 0; k < num_results; ++k) results[k] = combined;
  std::memcpy(output.data() + num_results * sizeof(Word), &combined, output.size() % sizeof(Word));
}

}  // namespace lockstep::bench

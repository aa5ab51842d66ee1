#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::bench {

/// How the floor's loop goes about its n buffers. Which is faster depends on the machine, and on where in
/// memory buffers happen to lie: the first keeps more of them in flight, but may be several times slower when
/// their pages share parts of the memory.
enum class FloorLoop : std::uint8_t {
  interleaved,  ///< One element of all buffers after the other.
  blocked,      ///< A few kilobytes of all buffers are read, then written to one after the other.
};

/// The traffic of a direct collective and nothing else: reads bytes [begin, end) of every input, combines
/// them bit by bit (or), and writes every output, in a plain loop of ordinary loads and stores that the
/// compiler vectorises. Buffers that are equal stay as they are, so that a pass in place after an all-reduce
/// changes nothing. One input or one output, or as many of one as of the other, go either way; other numbers
/// go by blocks.
/// @pre an output may be exactly an input.
void floor_pass(FloorLoop loop, std::span<std::byte* const> inputs, std::span<std::byte* const> outputs,
                std::int64_t begin, std::int64_t end);

/// The traffic of a reduction of one buffer: reads all of `input`, combines its words of 8 bytes bit by bit
/// (or; what remains is a word filled up with zeros), and writes the word to all of `output`, as often as it
/// fits.
void floor_reduction(std::span<const std::byte> input, std::span<std::byte> output);

/// Divides iterations into rounds, between which the floor is measured: what disturbs the machine for longer
/// than a round disturbs both. Without a floor there is one round.
/// @param round  called with the first iteration and the one after the last.
template <class Round>
void in_rounds(int iterations, bool with_floor, Round&& round) {
  const int rounds = with_floor ? std::min(10, iterations) : 1;
  const auto bound = [&](std::int64_t r) { return static_cast<int>(iterations * r / rounds); };
  for (int r = 0; r < rounds; ++r) round(bound(r), bound(r + 1));
}

}  // namespace lockstep::bench

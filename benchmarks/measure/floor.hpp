#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::bench {

/// The order in which the floor's loop reads its n buffers. Which one is faster depends on the machine and on
/// the buffers' addresses: the first keeps more buffers in flight, but may be several times slower when their
/// pages share memory banks.
enum class FloorLoop : std::uint8_t {
  interleaved,  ///< One element of all buffers after the other.
  blocked,      ///< A few kilobytes of all buffers are read, then written to one after the other.
};

/// Makes the traffic of a direct collective and nothing else: reads bytes [begin, end) of every input,
/// combines them bit by bit (or), and writes every output, in a plain loop of ordinary loads and stores that
/// the compiler vectorises. Equal buffers do not change, so that a pass in place after an all-reduce changes
/// nothing. One input, one output, or equally many of both work in either order; other numbers are read in
/// blocks.
/// @pre an output may be exactly an input.
void floor_pass(FloorLoop loop, std::span<std::byte* const> inputs, std::span<std::byte* const> outputs,
                std::int64_t begin, std::int64_t end);

/// Makes the traffic of a reduction of one buffer: reads all of `input`, combines its 8-byte words by bitwise
/// or (zeros fill the last word), and writes the result to all of `output` again and again.
void floor_reduction(std::span<const std::byte> input, std::span<std::byte> output);

/// Divides iterations into rounds and measures the floor between them, so that a disturbance longer than a
/// round affects both. Without a floor there is one round.
/// @param round  called with the first iteration and the one after the last.
template <class Round>
void in_rounds(int iterations, bool with_floor, Round&& round) {
  const int rounds = with_floor ? std::min(10, iterations) : 1;
  const auto bound = [&](std::int64_t r) { return static_cast<int>(iterations * r / rounds); };
  for (int r = 0; r < rounds; ++r) round(bound(r), bound(r + 1));
}

}  // namespace lockstep::bench

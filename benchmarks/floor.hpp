#pragma once

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

}  // namespace lockstep::bench

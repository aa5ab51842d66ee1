#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::bench {

/// The traffic of a direct all-reduce and nothing else: reads bytes [begin, end) of every input, combines
/// them bit by bit (or), and writes every output, in one plain loop of ordinary loads and stores that the
/// compiler vectorises. Buffers that are equal stay as they are, so an outputs-are-inputs pass after an
/// all-reduce changes nothing.
/// @pre as many outputs as inputs; an output may be exactly its input.
void floor_pass(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::int64_t begin,
                std::int64_t end);

}  // namespace lockstep::bench

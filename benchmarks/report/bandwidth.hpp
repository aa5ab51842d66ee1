#pragma once

#include <cstdint>

namespace lockstep::bench {

/// GB/s, 1 GB = 1e9 bytes.
struct Bandwidth {
  double algorithm = 0;  ///< Bytes over time.
  double bus = 0;        ///< algorithm times the collective's factor: comparable with the speed of the links.
};

/// @param bytes  what one rank brings (for gathers: what all bring together). @param seconds  0 gives 0 GB/s.
Bandwidth bandwidth(std::int64_t bytes, double seconds, double bus_factor);

/// 2(n-1)/n: each of n ranks must send, and receive, its buffer less its own part, twice. 0 with one rank.
double all_reduce_bus_factor(int num_ranks);
/// (n-1)/n: of what all ranks bring or get together, each has its own part already. 0 with one rank.
double gather_bus_factor(int num_ranks);
/// 1: the whole buffer crosses the slowest link once, however many ranks there are.
double rooted_bus_factor(int num_ranks);

}  // namespace lockstep::bench

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::compare {

/// One process of a library that is compared with lockstep.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual int rank() const = 0;
  virtual int num_ranks() const = 0;
  /// Sums `count` floats of all ranks, out of place. Returns when the result is there. @throws on failure.
  virtual void all_reduce(const float* input, float* output, std::size_t count) = 0;
};

/// Sizes in bytes: first, first · factor, … up to last. Buffers are as large as the last.
struct Sweep {
  std::int64_t first, last, factor;
};

struct SweepOptions {
  std::vector<Sweep> sweeps;
  double seconds = 0.1;  ///< That the timed iterations of one size shall take; at least 3 are made.
  int num_ranks = 2;     ///< Where the program starts them.
};

/// --sweep FIRST:LAST:FACTOR (several), --seconds, --ranks. Ends the program where they are wrong.
SweepOptions parse_sweep_options(int argc, char** argv);

/// Called by all ranks with the same options. Operation i works on the i-th slot of the buffers, modulo their
/// number, as in lockstep_bench; a time is the mean over ranks.
/// @return what compare/README.md describes. All ranks have the same.
nlohmann::ordered_json measure_all_reduce(Peer& peer, const SweepOptions& options, const std::string& name,
                                          const std::string& version);

}  // namespace lockstep::compare

#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// What one stage of a pass has done while a recording was on (lockstep/trace.hpp).
struct StageStatistics {
  std::string stage;                   ///< The call that made it, as "batch(32)".
  std::int64_t num_elements = 0;       ///< That it gave: elements, batches, or rows that move as numbers.
  std::chrono::nanoseconds total{};    ///< In its calls, from the call to the return.
  std::chrono::nanoseconds waiting{};  ///< Of `total`, until its threads had an element ready.
  /// Its own work: `total` without what its inputs took and without waiting, and what its threads did.
  std::chrono::nanoseconds work{};
  int num_threads = 1;           ///< That share the work.
  double mean_ready = 0;         ///< Elements that were ready when one was taken.
  std::int64_t buffer_size = 0;  ///< As many can be ready; 0: it keeps none.
};

/// What the stages of a pass have done: what `statistics` of a DatasetIterator or DistributedIterator gives.
struct InputStatistics {
  std::vector<StageStatistics> stages;  ///< Inputs before what reads them.
  /// Names the stage that bounds the pass: of the thread, or threads, with the most work the stage with the
  /// most. Empty if no work was measured.
  std::string slowest;
};

/// A table for people, with `slowest` as its last line.
std::ostream& operator<<(std::ostream& out, const InputStatistics& statistics);

}  // namespace lockstep

#pragma GCC visibility pop

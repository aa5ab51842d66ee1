#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "count/counting.hpp"
#include "measure/collective_floor.hpp"
#include "options/options.hpp"
#include "processes/processes.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// What one thread has measured.
struct Measurement {
  double seconds = 0;
  std::array<double, kFloorLoops.size()> floor_seconds{};
  std::int64_t wrong = 0;
  std::vector<double> iteration_seconds{};
  Work work{};  ///< With --count: the process's, with its first thread.
};

/// Every process learns of the threads of all. @param all  in the order of the processes, equally many of
/// each; this process's are set before.
void share(const Processes& processes, std::span<Measurement> all);

/// A row's half. The floor is the slowest thread's, whatever -a says: a thread that got no core at first has
/// measured less than the loop took. @param num_floor_loops  that were measured; the fastest counts.
Placement combine(const Options& options, std::span<const Measurement> all, std::int64_t size_bytes,
                  double bus_factor, std::size_t num_floor_loops);

/// With --count. @param least_bytes  that all ranks must move for an operation.
Counted count_per_operation(const Options& options, std::span<const Measurement> all, double least_bytes);

std::int64_t num_wrong(std::span<const Measurement> all);

}  // namespace lockstep::bench

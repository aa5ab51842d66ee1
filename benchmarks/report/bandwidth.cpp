#include "report/bandwidth.hpp"

namespace lockstep::bench {

Bandwidth bandwidth(std::int64_t bytes, double seconds, double bus_factor) {
  const double algorithm = seconds > 0 ? static_cast<double>(bytes) / 1e9 / seconds : 0;
  return {.algorithm = algorithm, .bus = algorithm * bus_factor};
}

double all_reduce_bus_factor(int num_ranks) { return 2.0 * (num_ranks - 1) / num_ranks; }

double gather_bus_factor(int num_ranks) { return 1.0 * (num_ranks - 1) / num_ranks; }

double rooted_bus_factor(int /*num_ranks*/) { return 1; }

}  // namespace lockstep::bench

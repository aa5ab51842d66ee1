#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::bench {

/// How one time is made of the ranks' times (-a).
enum class Average : std::uint8_t { rank_0, mean, min, max };

/// @param times  one per rank, or per thread that drives as many ranks as the others. @pre not empty.
double combine(Average average, std::span<const double> times);

/// The figures of -I, in microseconds.
struct IterationStatistics {
  std::vector<double> times;  ///< In order, of all iterations.
  int skipped = 0;            ///< Leading iterations that the figures below leave out.
  double min = 0, max = 0, mean = 0, p50 = 0, p95 = 0, p99 = 0;
  double standard_deviation = 0;  ///< Of the population.
  double variation_percent = 0;   ///< Standard deviation over mean.
};

/// @param times  of all iterations. @param skip  the number of leading iterations that the figures leave out.
/// @pre skip < times.size().
IterationStatistics iteration_statistics(std::span<const double> times, int skip);

}  // namespace lockstep::bench

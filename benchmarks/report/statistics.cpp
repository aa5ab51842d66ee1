#include "report/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::bench {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The smallest value that `percent` of all values do not exceed.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

}  // namespace

double combine(Average average, std::span<const double> times) {
  switch (average) {
    case Average::rank_0: return times.front();
    case Average::min: return std::ranges::min(times);
    case Average::max: return std::ranges::max(times);
    case Average::mean: break;
  }
  return mean_of(times);
}

IterationStatistics iteration_statistics(std::span<const double> times, int skip) {
  const auto kept = times.subspan(static_cast<std::size_t>(skip));
  std::vector<double> sorted(kept.begin(), kept.end());
  std::ranges::sort(sorted);

  const double mean = mean_of(kept);
  double squares = 0;
  for (const double time : kept) squares += (time - mean) * (time - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(kept.size()));
  return {.times = {times.begin(), times.end()},
          .skipped = skip,
          .min = sorted.front(),
          .max = sorted.back(),
          .mean = mean,
          .p50 = sorted[sorted.size() / 2],
          .p95 = percentile(sorted, 95),
          .p99 = percentile(sorted, 99),
          .standard_deviation = deviation,
          .variation_percent = mean > 0 ? 100 * deviation / mean : 0};
}

}  // namespace lockstep::bench

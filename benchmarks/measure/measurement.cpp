#include "measure/measurement.hpp"

#include <algorithm>

namespace lockstep::bench {

void share(const Processes& processes, std::span<Measurement> all) {
  if (processes.is_alone()) return;
  const std::size_t threads = all.size() / static_cast<std::size_t>(processes.count());
  const auto of = [&](int process) {
    return all.subspan(static_cast<std::size_t>(process) * threads, threads);
  };
  std::vector<double> own;
  for (const Measurement& measurement : of(processes.index())) {
    own.push_back(measurement.seconds);
    own.insert(own.end(), measurement.floor_seconds.begin(), measurement.floor_seconds.end());
    own.push_back(static_cast<double>(measurement.wrong));
    const Work& work = measurement.work;
    for (const std::int64_t counted : {work.sectors, work.launches, work.calls, work.waits})
      own.push_back(static_cast<double>(counted));
    own.insert(own.end(), measurement.iteration_seconds.begin(), measurement.iteration_seconds.end());
  }
  const std::vector<std::vector<double>> numbers = processes.gather(own);
  for (int process = 0; process < processes.count(); ++process) {
    if (process == processes.index()) continue;
    const std::vector<double>& theirs = numbers[static_cast<std::size_t>(process)];
    const std::size_t size = theirs.size() / threads;
    auto next = theirs.begin();
    for (Measurement& measurement : of(process)) {
      const auto end = next + static_cast<std::ptrdiff_t>(size);
      measurement.seconds = *next++;
      for (double& seconds : measurement.floor_seconds) seconds = *next++;
      measurement.wrong = static_cast<std::int64_t>(*next++);
      Work& work = measurement.work;
      for (std::int64_t* const counted : {&work.sectors, &work.launches, &work.calls, &work.waits})
        *counted = static_cast<std::int64_t>(*next++);
      measurement.iteration_seconds.assign(next, end);
      next = end;
    }
  }
}

Placement combine(const Options& options, std::span<const Measurement> all, std::int64_t size_bytes,
                  double bus_factor, std::size_t num_floor_loops) {
  const double operations = static_cast<double>(options.iterations) * options.aggregate;
  std::vector<double> times;
  for (const Measurement& measurement : all) times.push_back(measurement.seconds);
  const double time = combine(options.average, times) / operations;
  Placement result{.time_us = 1e6 * time, .bandwidth = bandwidth(size_bytes, time, bus_factor)};
  if (options.check > 0) result.wrong = num_wrong(all);
  if (options.floor) {
    std::array<double, kFloorLoops.size()> floors{};
    for (const Measurement& measurement : all)
      for (std::size_t loop = 0; loop < floors.size(); ++loop)
        floors[loop] = std::max(floors[loop], measurement.floor_seconds[loop] / operations);
    const double floor = std::ranges::min(std::span(floors).first(num_floor_loops));
    result.floor = Floor{.time_us = 1e6 * floor, .ratio = time > 0 ? floor / time : 0};
  }
  if (options.per_iteration) {
    std::vector<double> slowest_us;
    for (std::size_t i = 0; i < static_cast<std::size_t>(options.iterations); ++i) {
      double slowest = 0;
      for (const Measurement& measurement : all)
        slowest = std::max(slowest, measurement.iteration_seconds[i]);
      slowest_us.push_back(1e6 * slowest / options.aggregate);
    }
    result.iterations = iteration_statistics(slowest_us, options.per_iteration_skip);
  }
  return result;
}

Counted count_per_operation(const Options& options, std::span<const Measurement> all, double least_bytes) {
  constexpr double kSectorBytes = 32;
  const double operations = static_cast<double>(options.iterations) * options.aggregate;
  Counted result{.least_bytes = least_bytes};
  for (const Measurement& measurement : all) {
    const Work& work = measurement.work;
    result.sectors += static_cast<double>(work.sectors) / operations;
    result.launches += static_cast<double>(work.launches) / operations;
    result.calls += static_cast<double>(work.calls) / operations;
    result.waits += static_cast<double>(work.waits) / operations;
  }
  if (least_bytes > 0) result.ratio = kSectorBytes * result.sectors / least_bytes;
  return result;
}

std::int64_t num_wrong(std::span<const Measurement> all) {
  std::int64_t sum = 0;
  for (const Measurement& measurement : all) sum += measurement.wrong;
  return sum;
}

}  // namespace lockstep::bench

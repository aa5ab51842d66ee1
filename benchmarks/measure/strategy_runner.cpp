#include "measure/strategy_runner.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/memory.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "measure/floor.hpp"
#include "measure/measurement.hpp"
#include "measure/replica.hpp"
#include "report/names.hpp"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::unique_ptr<Strategy> make_strategy(const Options& options, const Processes& processes) {
  const CommunicationOptions communication{.timeout = std::chrono::seconds(options.timeout_seconds),
                                           .deterministic = options.algorithm == Algorithm::rank_order};
  if (!processes.is_alone())
    return std::make_unique<MultiWorkerMirroredStrategy>(processes.resolver(), communication,
                                                         WorkerOptions{.devices = make_devices(options)});
  std::unique_ptr<CrossDeviceOps> ops;
  switch (options.algorithm) {
    case Algorithm::automatic:
    case Algorithm::rank_order:
      return std::make_unique<MirroredStrategy>(make_devices(options), communication);
    case Algorithm::one_device: ops = std::make_unique<ReductionToOneDevice>(); break;
    case Algorithm::hierarchical: ops = std::make_unique<HierarchicalCopyAllReduce>(); break;
    case Algorithm::packed: ops = std::make_unique<NcclAllReduce>(); break;
  }
  return std::make_unique<MirroredStrategy>(make_devices(options), std::move(ops), communication);
}

}  // namespace

StrategyRunner::StrategyRunner(const Options& options, const OperationEntry& entry,
                               const Processes& processes)
    : options_(options), entry_(entry), processes_(processes), strategy_(make_strategy(options, processes)) {}

std::int64_t StrategyRunner::allocated_bytes() const {
  const std::vector<Device>& devices = strategy_->extended().worker_devices();
  std::int64_t bytes = 0;
  for (const Device& device : devices) {
    const MemoryStats stats = memory_stats(device);
    bytes += stats.in_use_bytes + stats.cached_bytes;
  }
  return bytes;
}

void StrategyRunner::run(const std::function<void(const Row&)>& on_row) {
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (const DataCase& data : options_.cases) {
      for (const std::int64_t size : options_.sizes()) {
        const auto operation = entry_.make(*strategy_, options_, data, size);
        for (int i = 0; i < options_.warmup_iterations; ++i) {
          operation->run(options_.aggregate);
          if (options_.floor) operation->run_floor(options_.aggregate);
        }
        synchronize();
        Row row{.size_bytes = operation->size_bytes(),
                .count = operation->count(),
                .type = std::string(operation->count() > 0 || entry_.traits.has_size ? bench_name(data.dtype)
                                                                                     : "none"),
                .op = std::string(entry_.traits.reduces ? bench_name(data.op) : "none"),
                .iterations = options_.iterations};
        row.out_of_place = measure(*operation);
        row.in_place = measure(*operation);
        if (options_.report_timestamps) row.timestamp = timestamp_now();
        on_row(row);
      }
    }
  }
}

Placement StrategyRunner::measure(StrategyOperation& operation) {
  std::vector<Measurement> all(static_cast<std::size_t>(processes_.count()));
  Measurement& mine = all[static_cast<std::size_t>(processes_.index())];
  mine.iteration_seconds.reserve(static_cast<std::size_t>(options_.iterations));
  std::optional<Counting> counting;
  if (options_.count) counting.emplace();
  in_rounds(options_.iterations, options_.floor, [&](int first, int end) {
    time_calls(operation, end - first, counting ? &*counting : nullptr, mine);
    if (options_.floor) mine.floor_seconds.front() += time_floor(operation, end - first);
  });
  if (counting) mine.work = counting->work();
  for (int pass = 0; pass < options_.check && num_wrong(all) == 0; ++pass) {
    const auto seed = static_cast<std::uint64_t>(pass);
    operation.prepare(seed);
    operation.run(1);
    mine.wrong += operation.count_wrong(seed, operation.results());
    share(processes_, all);
  }
  if (options_.check > 0) {
    operation.prepare({});
    synchronize();
  }
  share(processes_, all);
  Placement result =
      combine(options_, all, operation.size_bytes(), entry_.bus_factor(strategy_->num_replicas_in_sync()),
              /*num_floor_loops=*/1);
  if (options_.count)
    result.counted =
        count_per_operation(options_, all, static_cast<double>(processes_.sum(operation.least_bytes())));
  return result;
}

// One thread of each process makes all calls, so that no barrier of threads is needed.
void StrategyRunner::time_calls(StrategyOperation& operation, int iterations, const Counting* counting,
                                Measurement& mine) {
  if (counting != nullptr) counting->begin();
  processes_.meet();
  const auto start = Clock::now();
  for (int i = 0; i < iterations; ++i) {
    const auto iteration_start = Clock::now();
    operation.run(options_.aggregate);
    if (options_.blocking != Blocking::none) synchronize();
    if (options_.per_iteration) mine.iteration_seconds.push_back(seconds_since(iteration_start));
  }
  const double launched = seconds_since(start);
  if (counting != nullptr) counting->end();
  synchronize();
  mine.seconds += options_.report_cpu_time ? launched : seconds_since(start);
}

double StrategyRunner::time_floor(StrategyOperation& operation, int iterations) {
  processes_.meet();
  const auto start = Clock::now();
  for (int i = 0; i < iterations; ++i) operation.run_floor(options_.aggregate);
  synchronize();
  return seconds_since(start);
}

void StrategyRunner::synchronize() const {
  for (const Device& device : strategy_->extended().worker_devices()) current_stream(device).synchronize();
}

}  // namespace lockstep::bench

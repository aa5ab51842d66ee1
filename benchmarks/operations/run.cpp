#include <algorithm>

#include "operations/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {
namespace {

// Starts a function on every replica and waits for all.
class Run : public StrategyOperation {
 public:
  explicit Run(Strategy& strategy)
      : strategy_(strategy),
        first_replica_(first_replica(strategy)),
        calls_(strategy.extended().worker_devices().size()) {}

  void prepare(std::optional<std::uint64_t> seed) override {
    counts_calls_ = seed.has_value();
    std::ranges::fill(calls_, 0);
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) {
      if (counts_calls_)
        strategy_.run([this](ReplicaContext& context) {
          ++calls_[static_cast<std::size_t>(context.replica_id_in_sync_group() - first_replica_)];
        });
      else
        strategy_.run([] {});
    }
  }

  std::vector<Tensor> results() const override {
    return {Tensor::from(calls_, Shape(static_cast<std::int64_t>(calls_.size())), Device())};
  }

  // Every replica of this process was called once.
  std::int64_t count_wrong(std::uint64_t /*seed*/, std::span<const Tensor> results) const override {
    const auto calls = results[0].to_vector<std::int64_t>();
    return static_cast<std::int64_t>(calls.size()) - std::ranges::count(calls, 1);
  }

 private:
  Strategy& strategy_;
  int first_replica_;
  bool counts_calls_ = false;
  std::vector<std::int64_t> calls_;
};

}  // namespace

const OperationEntry kRun{
    .traits = {.name = "run", .is_strategy = true, .has_size = false},
    .bus_formula = "1",
    .bus_factor = rooted_bus_factor,
    .make = [](Strategy& strategy, const Options&, const DataCase&, std::int64_t)
        -> std::unique_ptr<StrategyOperation> { return std::make_unique<Run>(strategy); },
};

}  // namespace lockstep::bench

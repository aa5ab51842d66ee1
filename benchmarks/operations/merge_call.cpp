#include <algorithm>

#include "operations/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {
namespace {

// Each replica passes its number in its process plus the seed, and gets the sum of its process.
class MergeCall : public StrategyOperation {
 public:
  explicit MergeCall(Strategy& strategy)
      : strategy_(strategy),
        first_replica_(first_replica(strategy)),
        sums_(strategy.extended().worker_devices().size()) {}

  void prepare(std::optional<std::uint64_t> seed) override {
    first_ = static_cast<std::int64_t>(seed.value_or(0));
    std::ranges::fill(sums_, -1);
  }

  // All calls are in one run, so that the run's dispatch is paid once.
  void run(int times) override {
    strategy_.run([this, times](ReplicaContext& context) {
      const int replica = context.replica_id_in_sync_group() - first_replica_;
      const std::int64_t mine = first_ + replica;
      std::int64_t& sum = sums_[static_cast<std::size_t>(replica)];
      for (int i = 0; i < times; ++i) {
        sum = context.merge_call(
            [](Strategy&, const PerReplica<std::int64_t>& all) {
              std::int64_t total = 0;
              for (const std::int64_t one : all) total += one;
              return total;
            },
            mine);
      }
    });
  }

  std::vector<Tensor> results() const override {
    return {Tensor::from(sums_, Shape(static_cast<std::int64_t>(sums_.size())), Device())};
  }

  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    const auto sums = results[0].to_vector<std::int64_t>();
    const auto n = static_cast<std::int64_t>(sums.size());
    return n - std::ranges::count(sums, n * static_cast<std::int64_t>(seed) + n * (n - 1) / 2);
  }

 private:
  Strategy& strategy_;
  int first_replica_;
  std::int64_t first_ = 0;
  std::vector<std::int64_t> sums_;
};

}  // namespace

const OperationEntry kMergeCall{
    .traits = {.name = "merge_call", .is_strategy = true, .has_size = false},
    .bus_formula = "1",
    .bus_factor = rooted_bus_factor,
    .make = [](Strategy& strategy, const Options&, const DataCase&, std::int64_t)
        -> std::unique_ptr<StrategyOperation> { return std::make_unique<MergeCall>(strategy); },
};

}  // namespace lockstep::bench

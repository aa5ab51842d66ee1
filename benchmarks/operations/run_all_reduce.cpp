#include "operations/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {
namespace {

// Every replica sums one number of each: what a step does with its loss.
class RunAllReduce : public StrategyOperation {
 public:
  explicit RunAllReduce(Strategy& strategy) : strategy_(strategy), first_replica_(first_replica(strategy)) {
    for (const Device& device : strategy.extended().worker_devices())
      inputs_.push_back(Tensor::ones(Shape(), DType::f32, device));
    outputs_.resize(inputs_.size());
  }

  std::int64_t least_bytes() const override {
    return static_cast<std::int64_t>(2 * sizeof(float) * inputs_.size());
  }

  void prepare(std::optional<std::uint64_t> seed) override {
    for (std::size_t local = 0; local < inputs_.size(); ++local)
      inputs_[local].fill_(seed ? number(*seed, first_replica_ + static_cast<int>(local)) : 1.0f);
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) {
      strategy_.run([this](ReplicaContext& context) {
        const auto local = static_cast<std::size_t>(context.replica_id_in_sync_group() - first_replica_);
        outputs_[local] = context.all_reduce(ReduceOp::sum, inputs_[local]);
      });
    }
  }

  std::vector<Tensor> results() const override { return outputs_; }

  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    float expected = 0;
    for (int replica = 0; replica < strategy_.num_replicas_in_sync(); ++replica)
      expected += number(seed, replica);
    std::int64_t wrong = 0;
    for (const Tensor& result : results) wrong += result.to_vector<float>().front() == expected ? 0 : 1;
    return wrong;
  }

 private:
  // Sums of these are exact.
  static float number(std::uint64_t seed, int replica) {
    return static_cast<float>(seed % 1024) + static_cast<float>(replica + 1);
  }

  Strategy& strategy_;
  int first_replica_;
  std::vector<Tensor> inputs_, outputs_;
};

}  // namespace

const OperationEntry kRunAllReduce{
    .traits = {.name = "run_all_reduce", .is_strategy = true, .has_size = false},
    .bus_formula = "1",
    .bus_factor = rooted_bus_factor,
    .make = [](Strategy& strategy, const Options&, const DataCase&, std::int64_t)
        -> std::unique_ptr<StrategyOperation> { return std::make_unique<RunAllReduce>(strategy); },
};

}  // namespace lockstep::bench

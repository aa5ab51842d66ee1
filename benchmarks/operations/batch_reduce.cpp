#include "operations/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {
namespace {

// Tensors of several sizes, one of each on every replica, reduced together onto all replicas.
class BatchReduce : public StrategyOperation {
 public:
  BatchReduce(Strategy& strategy, const DataCase& data, std::span<const std::int64_t> counts)
      : strategy_(strategy), first_replica_(first_replica(strategy)), data_(data) {
    for (const std::int64_t count : counts) {
      std::vector<Tensor> components;
      for (const Device& device : strategy.extended().worker_devices())
        components.push_back(Tensor::ones(Shape(count), data.dtype, device));
      const PerReplica<Tensor> value(components);
      pairs_.emplace_back(value, value);
      inputs_.push_back(std::move(components));
      count_ += count;
    }
  }

  std::int64_t size_bytes() const override {
    return count_ * static_cast<std::int64_t>(size_of(data_.dtype));
  }
  std::int64_t count() const override { return count_; }
  std::int64_t least_bytes() const override {
    return 2 * size_bytes() * static_cast<std::int64_t>(inputs_[0].size());
  }

  void prepare(std::optional<std::uint64_t> seed) override {
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      for (std::size_t replica = 0; replica < inputs_[k].size(); ++replica) {
        inputs_[k][replica].fill_(1);
        if (seed)
          fill_tensor(fill_contribution, pattern(*seed, k), first_replica_ + static_cast<int>(replica),
                      inputs_[k][replica]);
      }
    }
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) results_ = strategy_.extended().batch_reduce_to(data_.op, pairs_);
  }

  void run_floor(int times) override {
    for (const Device& device : strategy_.extended().worker_devices())
      if (flat_inputs_.size() < inputs_[0].size())
        flat_inputs_.push_back(Tensor::ones(Shape(count_), data_.dtype, device));
    flat_results_.resize(flat_inputs_.size());
    for (int i = 0; i < times; ++i) {
      strategy_.run([&](ReplicaContext& context) {
        const auto replica = static_cast<std::size_t>(context.replica_id_in_sync_group() - first_replica_);
        flat_results_[replica] = context.all_reduce(data_.op, flat_inputs_[replica]);
      });
    }
  }

  std::vector<Tensor> results() const override {
    std::vector<Tensor> all;
    for (const Mirrored<Tensor>& result : results_) all.insert(all.end(), result.begin(), result.end());
    return all;
  }

  // Each tensor has a result for each replica.
  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < results.size(); ++i)
      wrong += count_wrong_in(pattern(seed, i / inputs_[0].size()), results[i]);
    return wrong;
  }

 private:
  Pattern pattern(std::uint64_t seed, std::size_t tensor) const {
    return {data_.dtype, data_.op, strategy_.num_replicas_in_sync(), seed * inputs_.size() + tensor};
  }

  Strategy& strategy_;
  int first_replica_;
  DataCase data_;
  std::int64_t count_ = 0;
  std::vector<std::vector<Tensor>> inputs_;  // [tensor][replica]
  std::vector<std::pair<ReduceValue, Destination>> pairs_;
  std::vector<Mirrored<Tensor>> results_;
  std::vector<Tensor> flat_inputs_, flat_results_;  // of the floor
};

}  // namespace

const OperationEntry kBatchReduce{
    .traits = {.name = "batch_reduce",
               .reduces = true,
               .is_strategy = true,
               .has_size_list = true,
               .floor = "one all_reduce of a tensor as large as all together, by every replica in one run"},
    .bus_formula = "2(n-1)/n",
    .bus_factor = all_reduce_bus_factor,
    .make = [](Strategy& strategy, const Options& options, const DataCase& data,
               std::int64_t) -> std::unique_ptr<StrategyOperation> {
      std::vector<std::int64_t> counts;
      for (const std::int64_t bytes : options.batch_sizes_bytes)
        counts.push_back(bytes / static_cast<std::int64_t>(size_of(data.dtype)));
      return std::make_unique<BatchReduce>(strategy, data, counts);
    },
};

}  // namespace lockstep::bench

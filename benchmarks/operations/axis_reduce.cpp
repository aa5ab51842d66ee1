#include <lockstep/ops.hpp>

#include "measure/floor.hpp"
#include "operations/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {
namespace {

// Each replica reduces a tensor [outer, axis, inner] of its own along its middle axis.
class AxisReduce : public StrategyOperation {
 public:
  AxisReduce(Strategy& strategy, const DataCase& data, const Shape& shape)
      : strategy_(strategy), first_replica_(first_replica(strategy)), data_(data), shape_(shape) {
    for (const Device& device : strategy.extended().worker_devices())
      inputs_.push_back(Tensor::ones(shape, data.dtype, device));
    outputs_.resize(inputs_.size());
  }

  std::int64_t size_bytes() const override { return inputs_[0].nbytes(); }
  std::int64_t count() const override { return shape_.size(); }
  std::int64_t least_bytes() const override {
    return (count() + num_results()) * static_cast<std::int64_t>(size_of(data_.dtype) * inputs_.size());
  }

  void prepare(std::optional<std::uint64_t> seed) override {
    for (std::size_t replica = 0; replica < inputs_.size(); ++replica) {
      inputs_[replica].fill_(1);
      if (seed) inputs_[replica].copy_(known_input(pattern(*seed, replica)));
    }
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) {
      strategy_.run([&](ReplicaContext& context) {
        const auto replica = static_cast<std::size_t>(context.replica_id_in_sync_group() - first_replica_);
        outputs_[replica] = reduce_axes(data_.op, inputs_[replica], {1}, data_.dtype);
      });
    }
  }

  void run_floor(int times) override {
    while (floor_outputs_.size() < inputs_.size()) {
      const Tensor& input = inputs_[floor_outputs_.size()];
      floor_outputs_.push_back(
          Tensor::zeros(Shape(is_on_host() ? num_results() : num_copied()), data_.dtype, input.device()));
    }
    for (int i = 0; i < times; ++i) {
      strategy_.run([&](ReplicaContext& context) {
        const auto replica = static_cast<std::size_t>(context.replica_id_in_sync_group() - first_replica_);
        Tensor& output = floor_outputs_[replica];
        if (is_on_host())
          floor_reduction(bytes_of(inputs_[replica]), bytes_of(output));
        else
          output.copy_(inputs_[replica].reshape({shape_.size()}).slice(0, num_copied()));
      });
    }
  }

  std::vector<Tensor> results() const override { return outputs_; }

  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    std::int64_t wrong = 0;
    for (std::size_t replica = 0; replica < results.size(); ++replica)
      wrong += count_wrong_in(pattern(seed, replica), results[replica]);
    return wrong;
  }

 private:
  bool is_on_host() const { return inputs_[0].device().kind() == DeviceKind::cpu; }
  std::int64_t num_results() const { return shape_[0] * shape_[2]; }
  // A copy reads and writes each element.
  std::int64_t num_copied() const { return (shape_.size() + num_results()) / 2; }

  static std::span<std::byte> bytes_of(Tensor& tensor) {  // of the host
    return {static_cast<std::byte*>(tensor.data()), static_cast<std::size_t>(tensor.nbytes())};
  }

  // Positions along the axis play the ranks.
  Pattern pattern(std::uint64_t seed, std::size_t replica) const {
    return {data_.dtype, data_.op, static_cast<int>(shape_[1]), seed * inputs_.size() + replica};
  }

  Tensor known_input(const Pattern& pattern) const {
    Tensor input = Tensor::empty(shape_, data_.dtype, Device());
    auto* at = static_cast<std::byte*>(input.data());
    const std::int64_t inner = shape_[2];
    for (std::int64_t o = 0; o < shape_[0]; ++o) {
      for (int a = 0; a < pattern.num_ranks; ++a) {
        fill_contribution(pattern, a, at, o * inner, (o + 1) * inner);
        at += inner * static_cast<std::int64_t>(size_of(data_.dtype));
      }
    }
    return input;
  }

  Strategy& strategy_;
  int first_replica_;
  DataCase data_;
  Shape shape_;
  std::vector<Tensor> inputs_, outputs_, floor_outputs_;
};

}  // namespace

const OperationEntry kAxisReduce{
    .traits = {.name = "axis_reduce",
               .reduces = true,
               .is_strategy = true,
               .has_shape = true,
               .floor = "a plain loop of the same threads that reads the input and writes the output",
               .gpu_floor =
                   "each replica's copy, in one run, of half as many elements as input and output have"},
    .bus_formula = "1",
    .bus_factor = rooted_bus_factor,
    .make = [](Strategy& strategy, const Options& options, const DataCase& data,
               std::int64_t size_bytes) -> std::unique_ptr<StrategyOperation> {
      const auto [outer, axis, inner] = options.shape;
      const std::int64_t block_bytes =
          Shape(axis, inner).size() * static_cast<std::int64_t>(size_of(data.dtype));
      return std::make_unique<AxisReduce>(strategy, data,
                                          Shape(outer.value_or(size_bytes / block_bytes), axis, inner));
    },
};

}  // namespace lockstep::bench

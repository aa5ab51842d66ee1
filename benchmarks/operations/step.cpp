#include <lockstep/trace.hpp>
#include <lockstep/update_ops.hpp>

#include "operations/table.hpp"
#include "report/bandwidth.hpp"
#include "trace/span.hpp"

namespace lockstep::bench {
namespace {

constexpr int kNumVariables = 20;
constexpr std::int64_t kCount = 1024;  // elements of a variable: 4 KiB
constexpr double kLearningRate = 0.5;
constexpr int kVariable = 0;  // whose message a variable holds; replicas' gradients follow

// A training step without its arithmetic: replicas pass gradients of some small variables, which exist
// already, the gradients are summed, and each variable moves down its sum.
class Step : public StrategyOperation {
 public:
  explicit Step(Strategy& strategy) : strategy_(strategy), first_replica_(first_replica(strategy)) {
    for (const Device& device : strategy.extended().worker_devices()) {
      std::vector<Tensor>& gradients = gradients_.emplace_back();
      for (int k = 0; k < kNumVariables; ++k)
        gradients.push_back(Tensor::ones(Shape(kCount), DType::f32, device));
    }
    for (int k = 0; k < kNumVariables; ++k)
      variables_.push_back(strategy.make_variable(Tensor::ones(Shape(kCount), DType::f32, Device())));
  }

  // Each sum is two accesses to it, beside a gradient's one and a variable's two.
  std::int64_t least_bytes() const override {
    return 5 * kNumVariables * kCount * static_cast<std::int64_t>(sizeof(float) * gradients_.size());
  }

  void prepare(std::optional<std::uint64_t> seed) override {
    for (int k = 0; k < kNumVariables; ++k) {
      Tensor value = Tensor::ones(Shape(kCount), DType::f32, Device());
      if (seed) fill_tensor(fill_message, pattern(*seed, k), kVariable, value);
      variables_[static_cast<std::size_t>(k)].assign(value);
      for (std::size_t replica = 0; replica < gradients_.size(); ++replica) {
        Tensor& gradient = gradients_[replica][static_cast<std::size_t>(k)];
        gradient.fill_(1);
        if (seed)
          fill_tensor(fill_message, pattern(*seed, k),
                      gradient_of(first_replica_ + static_cast<int>(replica)), gradient);
      }
    }
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) {
      const auto gradients = strategy_.run([this](ReplicaContext& context) -> const std::vector<Tensor>& {
        return gradients_[static_cast<std::size_t>(context.replica_id_in_sync_group() - first_replica_)];
      });
      std::vector<std::pair<ReduceValue, Destination>> pairs;
      pairs.reserve(variables_.size());
      for (std::size_t k = 0; k < variables_.size(); ++k) pairs.emplace_back(gradients[k], variables_[k]);
      const auto sums = strategy_.extended().batch_reduce_to(ReduceOp::sum, pairs);
      for (std::size_t k = 0; k < variables_.size(); ++k) {
        strategy_.extended().update(
            variables_[k],
            [](Tensor& local, const Tensor& gradient) {
              sgd_update_(local, gradient, {}, {.learning_rate = kLearningRate});
            },
            sums[k]);
      }
    }
  }

  std::vector<Tensor> results() const override {
    std::vector<Tensor> all;
    for (const Variable& variable : variables_)
      for (const Tensor& component : strategy_.local_results(variable)) all.push_back(component);
    return all;
  }

  // Each variable has a result for each replica.
  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::vector<float> expected = expected_value(seed, static_cast<int>(i / gradients_.size()));
      const std::vector<float> value = results[i].to_vector<float>();
      for (std::size_t e = 0; e < expected.size(); ++e) wrong += value[e] == expected[e] ? 0 : 1;
    }
    return wrong;
  }

 private:
  static Pattern pattern(std::uint64_t seed, int variable) {
    return {.dtype = DType::f32, .seed = seed * kNumVariables + static_cast<std::uint64_t>(variable)};
  }
  static int gradient_of(int replica) { return kVariable + 1 + replica; }

  // The check is exact: messages are small whole numbers.
  std::vector<float> expected_value(std::uint64_t seed, int variable) const {
    std::vector<float> value(kCount), gradient(kCount);
    fill_message(pattern(seed, variable), kVariable, value.data(), 0, kCount);
    for (int replica = 0; replica < strategy_.num_replicas_in_sync(); ++replica) {
      fill_message(pattern(seed, variable), gradient_of(replica), gradient.data(), 0, kCount);
      for (std::size_t e = 0; e < value.size(); ++e)
        value[e] -= static_cast<float>(kLearningRate) * gradient[e];
    }
    return value;
  }

  Strategy& strategy_;
  int first_replica_;
  std::vector<std::vector<Tensor>> gradients_;  // [replica][variable]
  std::vector<Variable> variables_;
};

// The same while a recording runs. It goes on from call to call: beginning one costs memory.
class RecordedStep : public Step {
 public:
  explicit RecordedStep(Strategy& strategy) : Step(strategy) {
    trace::start();
    detail::Span::listeners() &= ~detail::Span::kRecording;
  }
  ~RecordedStep() override { trace::stop(); }

  void run(int times) override {
    detail::Span::listeners() |= detail::Span::kRecording;
    Step::run(times);
    detail::Span::listeners() &= ~detail::Span::kRecording;
  }
  void run_floor(int times) override { Step::run(times); }
};

}  // namespace

const OperationEntry kStep{
    .traits = {.name = "step", .is_strategy = true, .has_size = false},
    .bus_formula = "1",
    .bus_factor = rooted_bus_factor,
    .make = [](Strategy& strategy, const Options&, const DataCase&, std::int64_t)
        -> std::unique_ptr<StrategyOperation> { return std::make_unique<Step>(strategy); },
};

const OperationEntry kRecordedStep{
    .traits = {.name = "recorded_step",
               .is_strategy = true,
               .has_size = false,
               .floor = "the same while nothing is recorded"},
    .bus_formula = "1",
    .bus_factor = rooted_bus_factor,
    .make = [](Strategy& strategy, const Options&, const DataCase&, std::int64_t)
        -> std::unique_ptr<StrategyOperation> { return std::make_unique<RecordedStep>(strategy); },
};

}  // namespace lockstep::bench

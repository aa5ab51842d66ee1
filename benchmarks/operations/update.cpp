#include <lockstep/optim/sgd.hpp>

#include "operations/table.hpp"

namespace lockstep::bench {
namespace {

constexpr double kLearningRate = 0.5;
constexpr int kVariable = 0, kGradient = 1;  // whose messages they hold

// A step of SGD: every replica's component of one variable moves down a gradient that exists already.
class Update : public StrategyOperation {
 public:
  Update(Strategy& strategy, DType dtype, std::int64_t count)
      : strategy_(strategy),
        gradient_(make_gradient(strategy, dtype, count)),
        variable_(strategy.make_variable(Tensor::ones(Shape(count), dtype, Device()))),
        optimizer_({.learning_rate = kLearningRate}) {}

  std::int64_t size_bytes() const override {
    return count() * static_cast<std::int64_t>(size_of(variable_.dtype()));
  }
  std::int64_t count() const override { return variable_.shape().size(); }
  std::int64_t least_bytes() const override {
    return 3 * size_bytes() * static_cast<std::int64_t>(gradient_.size());
  }

  void prepare(std::optional<std::uint64_t> seed) override {
    Tensor value = Tensor::ones(variable_.shape(), variable_.dtype(), Device());
    if (seed) fill_tensor(fill_message, pattern(*seed), kVariable, value);
    variable_.assign(value);
    for (Tensor component : gradient_) {
      component.fill_(1);
      if (seed) fill_tensor(fill_message, pattern(*seed), kGradient, component);
    }
  }

  void run(int times) override {
    for (int i = 0; i < times; ++i) optimizer_.apply_gradients({{gradient_, variable_}});
  }

  std::vector<Tensor> results() const override { return strategy_.local_results(variable_); }

  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    return dispatch(variable_.dtype(), [&]<class T>() {
      const auto size = static_cast<std::size_t>(count());
      const auto before = std::make_unique<T[]>(size), gradient = std::make_unique<T[]>(size);
      fill_message(pattern(seed), kVariable, before.get(), 0, count());
      fill_message(pattern(seed), kGradient, gradient.get(), 0, count());
      std::int64_t wrong = 0;
      for (const Tensor& result : results) {
        const Tensor on_host = result.to(Device());
        const T* const after = static_cast<const T*>(on_host.view().data);
        for (std::size_t i = 0; i < size; ++i) {
          // exact in double
          const T expected = static_cast<T>(static_cast<double>(before[i]) -
                                            kLearningRate * static_cast<double>(gradient[i]));
          wrong += after[i] == expected ? 0 : 1;
        }
      }
      return wrong;
    });
  }

 private:
  static Mirrored<Tensor> make_gradient(Strategy& strategy, DType dtype, std::int64_t count) {
    std::vector<Tensor> components;
    for (const Device& device : strategy.extended().worker_devices())
      components.push_back(Tensor::ones(Shape(count), dtype, device));
    return Mirrored<Tensor>(std::move(components));
  }
  Pattern pattern(std::uint64_t seed) const { return {.dtype = variable_.dtype(), .seed = seed}; }

  Strategy& strategy_;
  Mirrored<Tensor> gradient_;
  Variable variable_;
  optim::SGD optimizer_;
};

}  // namespace

const OperationEntry kUpdate{
    .traits = {.name = "update", .is_strategy = true, .is_floating = true},
    .bus_formula = "3",
    .bus_factor = [](int) { return 3.0; },
    .make = [](Strategy& strategy, const Options&, const DataCase& data,
               std::int64_t size_bytes) -> std::unique_ptr<StrategyOperation> {
      return std::make_unique<Update>(strategy, data.dtype,
                                      size_bytes / static_cast<std::int64_t>(size_of(data.dtype)));
    },
};

}  // namespace lockstep::bench

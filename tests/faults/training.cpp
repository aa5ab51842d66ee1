// A process that trains on two host replicas, from the beginning: strategy, variables, function, input,
// metric, trace and reports.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "faults/scenario.hpp"
#include "support/temporary_directory.hpp"

namespace ls = lockstep;

namespace {

constexpr std::int64_t kRows = 8, kBatch = 4;

void expects(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

class Training {
 public:
  explicit Training(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void attempt() {
    ls::trace::start(64);
    ls::install_report_signal(SIGUSR1);
    variable_.reset();
    strategy_.reset();
    strategy_ = std::make_unique<ls::MirroredStrategy>(std::vector<ls::Device>{"CPU:0", "CPU:1"});
    variable_ = strategy_->make_variable(ls::Tensor::ones({3, 2}), {.name = "weights"});
    train();
    std::raise(SIGUSR1);
    static_cast<void>(strategy_->report().to_string());
    ls::trace::stop();
    ls::trace::write((folder_ / "trace.json").string());
  }

  /// All replicas have the same values, and the strategy works, or says that it does not.
  void check(bool has_failed) {
    ls::trace::stop();
    if (strategy_ != nullptr && variable_) {
      const auto components = strategy_->local_results(*variable_);
      const std::vector<float> first = components[0].to_vector<float>();
      expects(components[1].to_vector<float>() == first, "the replicas' values differ");
      try {
        expects(sum_of_ones() == 2, "a wrong sum");
      } catch (const ls::Error& error) {
        std::printf("afterwards: %s\n", error.what());
        expects(has_failed, "the strategy is unusable");
      }
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      expects(entry.path().filename() == "trace.json", "a file is left");
    variable_.reset();
    strategy_.reset();
  }

 private:
  void train() {
    const auto scope = strategy_->scope();
    ls::optim::Momentum optimizer({.learning_rate = 0.5, .momentum = 0.9});
    ls::metrics::Mean loss("loss");
    auto step = strategy_->function([&](const ls::Tensor& x, const ls::Tensor& labels) {
      auto [losses, gradient] = ls::softmax_cross_entropy(ls::matmul(x, *variable_), labels);
      gradient.div_(kBatch);
      optimizer.apply_gradients({{ls::matmul(x, gradient, /*transpose_a=*/true), *variable_}});
      loss.update(losses);
    });
    const auto rows = ls::Dataset::range(kRows).map([](const ls::Tensor& number) {
      const auto i = number.item<std::int64_t>();
      return std::pair(ls::Tensor::full({3}, static_cast<float>(i)), ls::Tensor::scalar(i % 2));
    });
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const auto& [x, labels] : strategy_->distribute_dataset(rows.batch(kBatch).prefetch(1)))
        step(x, labels);
    expects(loss.result().item<double>() > 0, "no loss");
    strategy_->run([&](ls::ReplicaContext& ctx) {
      ls::PackedReduction packs(ctx, ls::ReduceOp::sum);
      ls::Tensor one = ls::Tensor::ones({100}), two = ls::Tensor::full({100'000}, 2.0f);
      packs.add(one);
      packs.add(two);
      const std::vector<ls::Tensor> sums = packs.wait();
      expects(sums[0].to_vector<float>()[0] == 2 && sums[1].to_vector<float>()[99'999] == 4,
              "wrong sums of packs");
    });
    expects(sum_of_ones() == 2, "a wrong sum");
  }
  float sum_of_ones() {
    const auto sums = strategy_->run(
        [](ls::ReplicaContext& ctx) { return ctx.all_reduce(ls::ReduceOp::sum, ls::Tensor::ones({1'000})); });
    return sums[1].to_vector<float>()[999];
  }

  std::filesystem::path folder_;
  std::unique_ptr<ls::Strategy> strategy_;
  std::optional<ls::Variable> variable_;
};

}  // namespace

int main() {
  const ls::test::TemporaryDirectory folder;
  Training training(folder.path());
  return ls::test::run_scenario({.attempt = [&] { training.attempt(); },
                                 .check = [&](bool has_failed) { training.check(has_failed); },
                                 .places = {folder.path().string(), "OpenBLAS"}});
}

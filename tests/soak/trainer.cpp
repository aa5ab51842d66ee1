#include "trainer.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <vector>

namespace lockstep::soak {
namespace {

constexpr std::int64_t kNumRows = 2000, kNumInputs = 8, kNumOutputs = 1024, kBatch = 48, kStepsPerSave = 20;

Variable make_weights(Strategy& strategy) {
  std::mt19937 random(1);
  std::vector<float> values(kNumInputs * kNumOutputs);
  for (float& value : values) value = static_cast<float>(random() % 1000) / 1000;
  return strategy.make_variable(Tensor::from(values, {kNumInputs, kNumOutputs}),
                                {.name = "weights", .aggregation = VariableAggregation::sum});
}

}  // namespace

void write_rows(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) return;
  std::ofstream file(path);
  std::mt19937 random(2);
  for (std::int64_t row = 0; row < kNumRows; ++row) {
    double target = 0;
    for (std::int64_t i = 0; i < kNumInputs; ++i) {
      const auto input = static_cast<double>(random() % 2001) / 1000 - 1;
      target += input * static_cast<double>(i);
      file << input << ',';
    }
    file << target << '\n';
  }
}

TypedDataset<Trainer::Row> Trainer::batches(const std::filesystem::path& rows) {
  const std::vector<readers::CsvColumn> columns(kNumInputs + 1, readers::CsvColumn{DType::f32});
  return Dataset::from_files({rows}, readers::csv({.columns = columns}))
      .shuffle(500, /*seed=*/3)
      .map(
          [](const std::vector<Tensor>& fields) {
            std::vector<float> inputs;
            for (std::int64_t i = 0; i < kNumInputs; ++i) inputs.push_back(fields[i].item<float>());
            return Row(Tensor::from(inputs, {kNumInputs}), fields.back());
          },
          {.num_parallel_calls = 2})
      .repeat()
      .batch(kBatch)
      .prefetch(2);
}

Trainer::Trainer(Strategy& strategy, const std::filesystem::path& rows,
                 const std::filesystem::path& checkpoints)
    : strategy_(strategy),
      weights_(make_weights(strategy)),
      input_(strategy.distribute_dataset(batches(rows), {.auto_shard_policy = AutoShardPolicy::data})),
      pass_(input_.iterator()),
      manager_(checkpoint_, checkpoints, {.max_to_keep = 3, .asynchronous = true}) {
  optimizer_.build({weights_});
  checkpoint_.add("weights", weights_).add("optimizer", optimizer_).add("input", pass_);
  manager_.restore_latest();
}

Tensor Trainer::learn(ReplicaContext& context, const Tensor& inputs, const Tensor& targets) {
  const std::int64_t num_rows = targets.size();
  const Tensor wanted = matmul(targets.reshape({num_rows, 1}), Tensor::full({1, kNumOutputs}, 1.0f));
  Tensor error = matmul(inputs, weights_) - wanted;
  error.div_(static_cast<float>(kBatch));
  optimizer_.apply_gradients({{matmul(inputs, error, /*transpose_a=*/true), weights_}});
  return context.all_reduce(ReduceOp::sum, sum(error * error));
}

void Trainer::step() {
  const auto [inputs, targets] = pass_.next();
  const auto losses =
      strategy_.run([this](ReplicaContext& context, const Tensor& own_inputs,
                           const Tensor& own_targets) { return learn(context, own_inputs, own_targets); },
                    inputs, targets);
  if (!std::isfinite(losses[0].item<float>())) throw std::logic_error("the loss is not finite");
}

void Trainer::save_if_due() {
  if (num_steps() % kStepsPerSave == 0) manager_.save(num_steps());
}

void Trainer::failing_step() {
  const auto [inputs, targets] = pass_.next();
  strategy_.run(
      [](ReplicaContext& context, const Tensor& own_inputs) {
        if (context.local_index() == 0) throw std::runtime_error("a replica has failed");
        return context.all_reduce(ReduceOp::sum, own_inputs);
      },
      inputs);
}

std::uint64_t Trainer::digest() const {
  std::uint64_t digest = 14695981039346656037u;
  for (const float value : weights_.value().to_vector<float>()) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    digest = (digest ^ bits) * 1099511628211u;
  }
  return digest;
}

}  // namespace lockstep::soak

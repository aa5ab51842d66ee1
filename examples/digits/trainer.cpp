#include "trainer.hpp"

#include <cmath>

namespace digits {
namespace {

template <class Metric>
Metric make_metric(ls::Strategy& strategy, const char* name) {
  const auto scope = strategy.scope();
  return Metric(name);
}

ls::Variable make_counter(ls::Strategy& strategy) {
  return strategy.make_variable(
      ls::Tensor::scalar(std::int64_t{0}),
      {.name = "num_epochs", .trainable = false, .aggregation = ls::VariableAggregation::only_first_replica});
}

std::int64_t num_rows_of(const ls::PerReplica<ls::Tensor>& labels) {
  std::int64_t num_rows = 0;
  for (const ls::Tensor& part : labels) num_rows += part.size();
  return num_rows;
}

}  // namespace

Trainer::Trainer(ls::Strategy& strategy, const DigitsData& data, const TrainerOptions& options)
    : strategy_(strategy),
      data_(data),
      options_(options),
      model_(strategy, options.seed),
      optimizer_(make_optimizer(options.optimizer, options.learning_rate)),
      num_epochs_(make_counter(strategy)),
      training_(batches(data_.training, true)),
      pass_(training_.iterator()),
      loss_(make_metric<ls::metrics::Mean>(strategy, "loss")),
      accuracy_(make_metric<ls::metrics::Accuracy>(strategy, "accuracy")),
      train_([this](ls::ReplicaContext& context, const ls::Tensor& images, const ls::Tensor& labels) {
        train(context, images, labels);
      }),
      test_([this](ls::ReplicaContext&, const ls::Tensor& images, const ls::Tensor& labels) {
        test(images, labels);
      }),
      traced_train_(strategy.function(train_)),
      traced_test_(strategy.function(test_)) {
  const auto& variables = model_.variables();
  optimizer_->build({variables.begin(), variables.end()});
  for (const ls::Variable& variable : variables) checkpoint_.add(variable.name(), variable);
  checkpoint_.add("optimizer", *optimizer_);
  checkpoint_.add("num_epochs", num_epochs_);
  checkpoint_.add("input", pass_);
}

// Each epoch has a different order, which depends only on the seed and the epoch's number.
Trainer::Batches Trainer::batches(const Examples& examples, bool shuffles) const {
  auto rows = ls::Dataset::from_tensor_slices(examples.images, examples.labels);
  if (shuffles) rows = rows.shuffle(examples.num_rows(), options_.seed);
  return strategy_.distribute_dataset(rows.batch(options_.batch_size),
                                      {.auto_shard_policy = ls::AutoShardPolicy::data});
}

void Trainer::reset_metrics() {
  loss_.reset();
  accuracy_.reset();
}

Score Trainer::score(std::int64_t num_rows) const {
  const double accuracy = accuracy_.result().item<double>();
  return {.loss = loss_.result().item<double>(),
          .num_correct = std::llround(accuracy * static_cast<double>(num_rows)),
          .num_rows = num_rows};
}

std::int64_t Trainer::over_all_workers(std::int64_t number) const {
  const auto numbers = strategy_.run([&](ls::ReplicaContext& context) {
    return ls::Tensor::scalar(context.local_index() == 0 ? number : 0);
  });
  return strategy_.reduce(ls::ReduceOp::sum, numbers).item<std::int64_t>();
}

int Trainer::num_epochs() const { return static_cast<int>(num_epochs_.value().item<std::int64_t>()); }

std::int64_t Trainer::num_steps() const { return optimizer_->iterations().value().item<std::int64_t>(); }

void Trainer::train(ls::ReplicaContext& context, const ls::Tensor& images, const ls::Tensor& labels) {
  const DigitsModel::Activations activations = model_.forward(images);
  auto [losses, gradient] = ls::softmax_cross_entropy(activations.logits, labels);
  loss_.update(losses);
  accuracy_.update(labels, activations.logits);
  // The loss is the mean over the rows of all replicas; an epoch's last batch has fewer.
  gradient.div_(context.all_reduce(ls::ReduceOp::sum, static_cast<float>(images.shape()[0])));
  const auto gradients = model_.gradients(images, activations, gradient);
  std::vector<ls::optim::GradientAndVariable> pairs;
  for (std::size_t i = 0; i < gradients.size(); ++i) pairs.push_back({gradients[i], model_.variables()[i]});
  optimizer_->apply_gradients(pairs);  // summed over the replicas
}

void Trainer::test(const ls::Tensor& images, const ls::Tensor& labels) {
  const ls::Tensor logits = model_.forward(images).logits;
  loss_.update(ls::softmax_cross_entropy(logits, labels).first);
  accuracy_.update(labels, logits);
}

std::int64_t Trainer::run(ls::Function<Step>& traced, const Step& step, Pass& batches,
                          const Progress& progress) {
  reset_metrics();
  std::int64_t num_rows = 0;
  while (const auto batch = batches.next_optional()) {
    const auto& [images, labels] = *batch;
    if (options_.graph)
      traced(images, labels);
    else
      strategy_.run(step, images, labels);
    num_rows += num_rows_of(labels);
    if (progress) progress(num_rows);
  }
  return num_rows;
}

Score Trainer::train_epoch(const Progress& progress) {
  const std::int64_t num_rows = run(traced_train_, train_, pass_, progress);
  num_epochs_.assign_add(1);
  pass_ = training_.iterator();
  return score(over_all_workers(num_rows));
}

Score Trainer::evaluate() {
  Pass pass = batches(data_.test, false).iterator();
  return score(over_all_workers(run(traced_test_, test_, pass, {})));
}

}  // namespace digits

#include "trainer.hpp"

namespace digits {
namespace {

/// Running sums on one replica's device, so that no step waits for it.
struct Totals {
  ls::Tensor loss = ls::Tensor::zeros(ls::Shape());
  ls::Tensor num_correct = ls::Tensor::zeros(ls::Shape(), ls::DType::i64);
  ls::Tensor num_rows = ls::Tensor::zeros(ls::Shape(), ls::DType::i64);

  void add(const ls::Tensor& losses, const ls::Tensor& logits, const ls::Tensor& labels) {
    loss.add_(ls::sum(losses));
    num_correct.add_(ls::sum(ls::equal(ls::argmax(logits), labels).cast(ls::DType::i64)));
    num_rows.add_(labels.size());
  }
};
LOCKSTEP_NEST(Totals, loss, num_correct, num_rows)

Score score(ls::Strategy& strategy, const ls::PerReplica<Totals>& totals) {
  const Totals sums = strategy.reduce(ls::ReduceOp::sum, totals);
  const std::int64_t num_rows = sums.num_rows.item<std::int64_t>();
  return {.loss = sums.loss.item<float>() / static_cast<double>(num_rows),
          .num_correct = sums.num_correct.item<std::int64_t>(),
          .num_rows = num_rows};
}

auto batches(const Examples& examples, std::int64_t batch_size) {
  return ls::Dataset::from_tensor_slices(examples.images, examples.labels).batch(batch_size);
}

auto shuffled_batches(const Examples& examples, const TrainerOptions& options) {
  return ls::Dataset::from_tensor_slices(examples.images, examples.labels)
      .shuffle(examples.num_rows(), options.seed)
      .batch(options.batch_size);
}

}  // namespace

Trainer::Trainer(ls::Strategy& strategy, const DigitsData& data, const TrainerOptions& options)
    : strategy_(strategy),
      model_(strategy, options.seed),
      optimizer_(strategy, model_, options.optimizer, options.learning_rate),
      training_(strategy.distribute_dataset(shuffled_batches(data.training, options))),
      test_(strategy.distribute_dataset(batches(data.test, options.batch_size))) {}

Score Trainer::train_epoch(const Progress& progress) {
  const ls::PerReplica<Totals> totals = strategy_.run([] { return Totals(); });

  const auto step = [this](ls::ReplicaContext& context, const ls::Tensor& images, const ls::Tensor& labels,
                           Totals sums) {
    const DigitsModel::Activations activations = model_.forward(images);
    auto [losses, gradient] = ls::softmax_cross_entropy(activations.logits, labels);
    sums.add(losses, activations.logits, labels);
    // The loss is the mean over the batch of all replicas; the last one of an epoch is a small one.
    const ls::Tensor batch_size =
        context.all_reduce(ls::ReduceOp::sum, static_cast<float>(images.shape()[0]));
    gradient.div_(batch_size);
    return model_.gradients(images, activations, gradient);
  };

  std::int64_t num_rows = 0;
  for (const auto& [images, labels] : training_) {
    optimizer_.apply(strategy_.run(step, images, labels, totals));
    for (const ls::Tensor& part : labels) num_rows += part.size();
    if (progress) progress(num_rows);
  }
  return score(strategy_, totals);
}

Score Trainer::evaluate() {
  const ls::PerReplica<Totals> totals = strategy_.run([] { return Totals(); });
  const auto step = [this](const ls::Tensor& images, const ls::Tensor& labels, Totals sums) {
    const ls::Tensor logits = model_.forward(images).logits;
    sums.add(ls::softmax_cross_entropy(logits, labels).first, logits, labels);
  };
  for (const auto& [images, labels] : test_) strategy_.run(step, images, labels, totals);
  return score(strategy_, totals);
}

}  // namespace digits

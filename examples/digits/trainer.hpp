#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>

#include <lockstep/lockstep.hpp>

#include "digits_data.hpp"
#include "digits_model.hpp"
#include "optimizer.hpp"

namespace digits {

struct TrainerOptions {
  OptimizerKind optimizer = OptimizerKind::adam;
  double learning_rate = default_learning_rate(OptimizerKind::adam);
  std::int64_t batch_size = 64;  ///< Of all replicas together.
  std::uint64_t seed = 1;        ///< Of the weights, and of the order of the images.
};

/// How the model did on a number of images.
struct Score {
  double loss = 0;  ///< Mean over the images.
  std::int64_t num_correct = 0;
  std::int64_t num_rows = 0;

  double accuracy() const { return static_cast<double>(num_correct) / static_cast<double>(num_rows); }
};

/// Trains a model on the replicas of a strategy. What it learns depends on their number by rounding only, and
/// so it does when another trainer, with as many replicas as it likes, goes on from a checkpoint.
class Trainer {
 public:
  Trainer(ls::Strategy& strategy, const DigitsData& data, const TrainerOptions& options);

  /// Called after every step with the images seen in this epoch.
  using Progress = std::function<void(std::int64_t num_rows)>;

  /// One pass over the images for training. The score is of the model as each batch met it.
  Score train_epoch(const Progress& progress = {});
  /// The model's score on the images for testing.
  Score evaluate();

  /// Passes so far, those before a checkpoint included.
  int num_epochs() const;
  /// Everything that training goes on from: weights, the optimizer's state, and the number of epochs.
  ls::Checkpoint& checkpoint() { return checkpoint_; }
  const DigitsModel& model() const { return model_; }

 private:
  using Batches = ls::DistributedDataset<std::tuple<ls::PerReplica<ls::Tensor>, ls::PerReplica<ls::Tensor>>>;

  Batches batches(const Examples& examples) const;
  Batches shuffled_batches(const Examples& examples) const;
  void reset_metrics();
  Score score(std::int64_t num_rows) const;

  ls::Strategy& strategy_;
  const DigitsData data_;
  const TrainerOptions options_;
  DigitsModel model_;
  std::unique_ptr<ls::optim::Optimizer> optimizer_;
  ls::Variable num_epochs_;
  ls::metrics::Mean loss_;
  ls::metrics::Accuracy accuracy_;
  ls::Checkpoint checkpoint_;
};

}  // namespace digits

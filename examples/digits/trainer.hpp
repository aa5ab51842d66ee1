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
  std::uint64_t seed = 1;        ///< For the weights and the order of the images.
  bool graph = false;            ///< Whether steps are traced: on GPUs each is then one launch of a graph.
};

/// The model's score on a number of images.
struct Score {
  double loss = 0;  ///< Mean over the images.
  std::int64_t num_correct = 0;
  std::int64_t num_rows = 0;

  double accuracy() const { return static_cast<double>(num_correct) / static_cast<double>(num_rows); }
};

/// Trains a model on the replicas of a strategy. Its results depend on the number of replicas only by
/// rounding, also if another trainer with another number of replicas resumes from a checkpoint, after any
/// step.
class Trainer {
 public:
  Trainer(ls::Strategy& strategy, const DigitsData& data, const TrainerOptions& options);

  /// Called after every step with the images seen in this epoch.
  using Progress = std::function<void(std::int64_t num_rows)>;

  /// Makes one pass over the training images, or the rest of the one in whose midst a checkpoint was saved.
  /// The score of each batch is that of the model before the batch's step.
  Score train_epoch(const Progress& progress = {});
  /// The model's score on the test images.
  Score evaluate();

  /// The number of passes so far, including those before a checkpoint.
  int num_epochs() const;
  /// The number of steps so far, likewise.
  std::int64_t num_steps() const;
  /// The state from which training resumes: weights, the optimizer's state, the number of epochs, and the
  /// place among the images of this one.
  ls::Checkpoint& checkpoint() { return checkpoint_; }
  const DigitsModel& model() const { return model_; }

 private:
  using Step = std::function<void(ls::ReplicaContext&, const ls::Tensor& images, const ls::Tensor& labels)>;
  using Batches = ls::DistributedDataset<std::tuple<ls::PerReplica<ls::Tensor>, ls::PerReplica<ls::Tensor>>>;

  void train(ls::ReplicaContext& context, const ls::Tensor& images, const ls::Tensor& labels);
  void test(const ls::Tensor& images, const ls::Tensor& labels);
  using Pass = ls::DistributedIterator<Batches::value_type>;

  /// Runs a step on all batches that are left. @return the number of images.
  std::int64_t run(ls::Function<Step>& traced, const Step& step, Pass& batches, const Progress& progress);
  Batches batches(const Examples& examples, bool shuffles) const;
  void reset_metrics();
  Score score(std::int64_t num_rows) const;
  /// The sum of a number of each worker; of one process, the number.
  std::int64_t over_all_workers(std::int64_t number) const;

  ls::Strategy& strategy_;
  const DigitsData data_;
  const TrainerOptions options_;
  DigitsModel model_;
  std::unique_ptr<ls::optim::Optimizer> optimizer_;
  ls::Variable num_epochs_;
  const Batches training_;
  Pass pass_;  // over training_
  ls::metrics::Mean loss_;
  ls::metrics::Accuracy accuracy_;
  ls::Checkpoint checkpoint_;
  const Step train_, test_;
  ls::Function<Step> traced_train_, traced_test_;
};

}  // namespace digits

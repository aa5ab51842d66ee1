#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <tuple>

#include <lockstep/lockstep.hpp>

namespace lockstep::soak {

/// Writes the rows that a Trainer learns from, as text, unless the file is there.
void write_rows(const std::filesystem::path& path);

/// Fits linear functions to the rows of a file, and saves a checkpoint after every 20 steps. The weights
/// depend on the number of steps and replicas alone, not on how often a trainer was ended and made again.
class Trainer {
 public:
  /// Goes on after the newest checkpoint of the folder.
  Trainer(Strategy& strategy, const std::filesystem::path& rows, const std::filesystem::path& checkpoints);

  /// @throws std::logic_error  the loss is not finite.
  void step();
  void save_if_due();
  /// Reads a step's rows and throws in the first replica of this process, before anything is changed.
  void failing_step();
  std::int64_t num_steps() const { return optimizer_.iterations().value().item<std::int64_t>(); }
  /// Of the bytes of all weights, by FNV-1a.
  std::uint64_t digest() const;
  /// Waits for the checkpoint that is being written.
  void finish() { manager_.wait(); }

 private:
  using Row = std::tuple<Tensor, Tensor>;  // inputs and the target
  using Rows = decltype(std::declval<Strategy&>().distribute_dataset(std::declval<TypedDataset<Row>>()));
  using Pass = decltype(std::declval<Rows&>().iterator());

  static TypedDataset<Row> batches(const std::filesystem::path& rows);
  Tensor learn(ReplicaContext& context, const Tensor& inputs, const Tensor& targets);

  Strategy& strategy_;
  Variable weights_;
  optim::Momentum optimizer_{{.learning_rate = 0.01}};
  Rows input_;
  Pass pass_;
  Checkpoint checkpoint_{};
  CheckpointManager manager_;
};

}  // namespace lockstep::soak

#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace libtorch_ddp {

struct TrainerOptions {
  int num_replicas = 4;
  int num_steps = 100;
  std::int64_t batch_size = 64;     ///< Rows of all replicas together, which share them evenly.
  bool double_precision = false;    ///< Train float64 instead of float32.
  std::int64_t bytes_per_pack = 0;  ///< Of a bucket of gradients; 0: the default.
};

struct Trained {
  std::vector<double> losses;  ///< Of each step, the mean over the global batch.
  double accuracy = 0;         ///< Fraction of the test images that are read correctly.
  bool replicas_agree = true;  ///< Whether all replicas' parameters have the same bits at the end.
};

/// Trains a torch::nn::Module on handwritten digits, on host replicas with a thread and a copy of the module
/// each.
/// @param data  the folder of digits_images.npy and digits_labels.npy.
/// @throws lockstep::Error
Trained train(const TrainerOptions& options, const std::filesystem::path& data);

}  // namespace libtorch_ddp

// Reads digits from files on all replicas: each replica takes its share of the rows and shifts every image,
// on threads of the pipeline while the previous step computes, and trains on it.
#include <array>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "digits/digits_data.hpp"
#include "digits/digits_model.hpp"

namespace ls = lockstep;

namespace {

constexpr std::int64_t kSide = 8, kFold = 5;  // images are 8 x 8; every fifth row is for testing
constexpr std::int64_t kBatchPerReplica = 16;

// An image shifted by at most a pixel in a direction that depends on its row, as f32 from 0 to 1.
std::pair<ls::Tensor, ls::Tensor> moved(const ls::Tensor& image, const ls::Tensor& label,
                                        const ls::Tensor& row) {
  constexpr std::array<std::pair<int, int>, 5> kMoves{{{0, 0}, {0, 1}, {1, 0}, {0, -1}, {-1, 0}}};
  const auto [down, right] = kMoves[static_cast<std::size_t>(row.item<std::int64_t>() / kFold % 5)];
  const auto pixels = image.to_vector<std::uint8_t>();
  std::vector<float> result(pixels.size());
  for (std::int64_t y = 0; y < kSide; ++y) {
    for (std::int64_t x = 0; x < kSide; ++x) {
      const std::int64_t from_y = y - down, from_x = x - right;
      if (from_y < 0 || from_y >= kSide || from_x < 0 || from_x >= kSide) continue;
      result[static_cast<std::size_t>(y * kSide + x)] =
          static_cast<float>(pixels[static_cast<std::size_t>(from_y * kSide + from_x)]) / 16;
    }
  }
  return {ls::Tensor::from(result, {kSide * kSide}), label.cast(ls::DType::i64)};
}

// The training rows of one input pipeline: every num_input_pipelines-th row.
auto training_rows(const std::filesystem::path& folder, const ls::InputContext& context) {
  const auto read = [&](const char* file) {
    return ls::Dataset::from_files({folder / file}, ls::readers::npy());
  };
  return ls::Dataset::zip(read("digits_images.npy"), read("digits_labels.npy"), ls::Dataset::range(1 << 20))
      .filter([](const ls::Tensor&, const ls::Tensor&, const ls::Tensor& row) {
        return row.item<std::int64_t>() % kFold != kFold - 1;
      })
      .shard(context.num_input_pipelines(), context.input_pipeline_id())
      .cache()  // only the first pass reads the files
      .shuffle(1000, /*seed=*/1)
      .map(moved, {.num_parallel_calls = 2})
      .batch(kBatchPerReplica)
      .prefetch(2);
}

// A pipeline for each replica of this process, or for each of the processes that a launcher has started.
std::unique_ptr<ls::Strategy> make_strategy(const std::vector<ls::Device>& devices) {
  const auto cluster = ls::cluster::from_environment();
  if (cluster->cluster_spec().empty()) return std::make_unique<ls::MirroredStrategy>(devices);
  return std::make_unique<ls::MultiWorkerMirroredStrategy>(cluster, ls::CommunicationOptions{},
                                                           ls::WorkerOptions{.devices = devices});
}

}  // namespace

int main() {
  const std::filesystem::path folder = LOCKSTEP_DIGITS_DATA;
  const auto owned = make_strategy({"CPU:0", "CPU:1", "CPU:2", "CPU:3"});
  ls::Strategy& strategy = *owned;
  const bool has_workers = strategy.cluster_resolver() != nullptr;
  const auto batches = strategy.distribute_datasets_from_function(
      [&](const ls::InputContext& context) { return training_rows(folder, context); },
      {.replication_mode =
           has_workers ? ls::InputReplicationMode::per_worker : ls::InputReplicationMode::per_replica});

  const digits::DigitsModel model(strategy, /*seed=*/1);
  std::optional<ls::optim::Momentum> optimizer;
  {
    const auto scope = strategy.scope();
    optimizer.emplace(ls::optim::MomentumOptions{.learning_rate = 0.1});
  }
  const auto step = [&](ls::ReplicaContext& context, const ls::Tensor& images, const ls::Tensor& labels) {
    const auto activations = model.forward(images);
    auto [losses, gradient] = ls::softmax_cross_entropy(activations.logits, labels);
    // The last step of a pass has fewer rows, and may have none on some replicas.
    gradient.div_(context.all_reduce(ls::ReduceOp::sum, static_cast<float>(images.shape()[0])));
    const auto gradients = model.gradients(images, activations, gradient);
    std::vector<ls::optim::GradientAndVariable> pairs;
    for (std::size_t i = 0; i < gradients.size(); ++i) pairs.push_back({gradients[i], model.variables()[i]});
    optimizer->apply_gradients(pairs);
  };

  std::int64_t num_steps = 0, num_waits = 0;
  for (int epoch = 1; epoch <= 30; ++epoch) {
    auto pass = batches.iterator();
    for (; auto batch = pass.next_optional(); ++num_steps) strategy.run(step, batch->first, batch->second);
    num_waits += pass.num_waits();
  }

  const digits::Examples test = digits::load_digits(folder).test;
  const ls::Tensor found = ls::argmax(model.forward(test.images).logits, 1);
  std::int64_t num_right = 0;
  for (std::int64_t i = 0; i < test.num_rows(); ++i)
    num_right +=
        found.slice(i, i + 1).item<std::int64_t>() == test.labels.slice(i, i + 1).item<std::int64_t>();
  if (strategy.extended().should_save_summary())
    std::cout << num_steps << " steps, input was late at " << num_waits << "; " << num_right << " of "
              << test.num_rows() << " digits are read correctly\n";
  return num_right * 100 >= test.num_rows() * 95 ? 0 : 1;
}

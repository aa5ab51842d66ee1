// elastic_worker SILENCE_MS CPU|GPU DEVICE STOP_FILE [CHIEF ADDRESS]
//
// Reduces over all workers until the file is there, with whoever joins and without whoever is lost; with
// CHIEF it joins. No result may be wrong. The number of the step comes from the chief, and may leave out none
// nor repeat any; but a step in which a worker is lost may have ended on some alone. For kill_joiners.sh.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

namespace {

using Workers = ls::MultiWorkerMirroredStrategy;

/// What a replica gives in a step; neighbouring steps have other numbers.
float given(std::int64_t step) { return static_cast<float>(step % 97 + 1); }

/// The next step of a worker, and by how many it may be wrong about that; none: it has just joined.
struct Progress {
  std::int64_t step = 0;
  std::optional<std::int64_t> margin = 0;
};

/// Reduces step by step. @return whether the file was there; else others wait to join.
bool reduce(Workers& workers, Progress& progress, const std::filesystem::path& stop_file) {
  std::int64_t& step = progress.step;
  const ls::Variable first = workers.make_variable(ls::Tensor::scalar(step), {.name = "step"});
  const auto next = first.value().item<std::int64_t>();
  if (progress.margin && std::abs(next - step) > *progress.margin)
    std::cout << "wrong: step " << next << " follows where " << step << " would" << std::endl;
  step = next;
  progress.margin = 0;
  const auto num_replicas = static_cast<float>(workers.num_replicas_in_sync());
  std::cout << "replicas " << num_replicas << " from step " << step << std::endl;
  while (workers.num_waiting() == 0) {
    const float stop = std::filesystem::exists(stop_file) ? 1.0f : 0.0f;
    const auto sums = workers.run([&](ls::ReplicaContext& context) {
      const std::vector<float> own{given(step), stop};
      return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::from(own, {2}));
    });
    const std::vector<float> sum = sums[0].to_vector<float>();
    if (sum[0] != num_replicas * given(step)) std::cout << "wrong: step " << step << std::endl;
    ++step;
    if (sum[1] > 0) return true;
  }
  return false;
}

int work(std::unique_ptr<Workers> workers, Progress progress, const std::filesystem::path& stop_file) {
  for (;;) {
    try {
      if (reduce(*workers, progress, stop_file)) break;
      if (auto grown = workers->grow()) workers = std::move(grown);
    } catch (const ls::PeerLost& error) {
      std::cout << "lost: " << error.what() << std::endl;
      if (progress.margin) progress.margin = 1;
      workers = workers->shrink();
    }
  }
  std::cout << "done " << workers->num_replicas_in_sync() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool joins = argc > 5;
    const ls::WorkerOptions options{.devices = {ls::Device(std::string(argv[2]) + ":" + argv[3])},
                                    .start_timeout = std::chrono::seconds(joins ? 60 : 15),
                                    .heartbeat_timeout = std::chrono::milliseconds(std::stoi(argv[1]))};
    auto workers = joins ? Workers::join(argv[5], {}, options, argv[6])
                         : std::make_unique<Workers>(ls::cluster::from_environment(),
                                                     ls::CommunicationOptions{}, options);
    return work(std::move(workers), {.margin = joins ? std::nullopt : std::optional<std::int64_t>(0)},
                argv[4]);
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}

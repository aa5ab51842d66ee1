// elastic_worker SILENCE_MS CPU|GPU DEVICE STOP_FILE [CHIEF ADDRESS]
//
// Reduces over all workers until the file is there, with whoever joins and without whoever is lost; with
// CHIEF it joins. No result may be wrong; the number of the step comes from the chief. For kill_joiners.sh.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

namespace {

using Workers = ls::MultiWorkerMirroredStrategy;

/// What a replica gives in a step; neighbouring steps have other numbers.
float given(std::int64_t step) { return static_cast<float>(step % 97 + 1); }

/// Reduces step by step. @return whether the file was there; else others wait to join.
bool reduce(Workers& workers, std::int64_t& step, const std::filesystem::path& stop_file) {
  // A worker that joins takes the chief's number.
  const ls::Variable first = workers.make_variable(ls::Tensor::scalar(step), {.name = "step"});
  step = first.value().item<std::int64_t>();
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

int work(std::unique_ptr<Workers> workers, const std::filesystem::path& stop_file) {
  std::int64_t step = 0;
  for (;;) {
    try {
      if (reduce(*workers, step, stop_file)) break;
      if (auto grown = workers->grow()) workers = std::move(grown);
    } catch (const ls::PeerLost& error) {
      std::cout << "lost: " << error.what() << std::endl;
      workers = workers->shrink();
    }
  }
  std::cout << "done " << workers->num_replicas_in_sync() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const ls::WorkerOptions options{.devices = {ls::Device(std::string(argv[2]) + ":" + argv[3])},
                                    .start_timeout = std::chrono::seconds(argc > 5 ? 60 : 5),
                                    .heartbeat_timeout = std::chrono::milliseconds(std::stoi(argv[1]))};
    auto workers = argc > 5 ? Workers::join(argv[5], {}, options, argv[6])
                            : std::make_unique<Workers>(ls::cluster::from_environment(),
                                                        ls::CommunicationOptions{}, options);
    return work(std::move(workers), argv[4]);
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}

// endless_worker SILENCE_MS CPU|GPU: reduces over all workers until one of them is lost, and says so; for
// kill_workers.sh. No result that it reads may be wrong, also none of a step that the loss has ended.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

namespace {

constexpr int kReplicas = 2;  // of each worker

/// What a replica gives in a step; neighbouring steps have other numbers.
float given(int step) { return static_cast<float>(step % 97 + 1); }

struct Step {
  int number;
  float expected;
  ls::PerReplica<ls::Tensor> sums;
};

/// Waits for a step's results. @throws PeerLost
bool is_right(const Step& step) {
  for (const ls::Tensor& sum : step.sums) {
    const std::vector<float> values = sum.to_vector<float>();
    if (!std::ranges::all_of(values, [&](float value) { return value == step.expected; })) return false;
  }
  return true;
}

}  // namespace

int main(int, char** argv) {
  const std::chrono::milliseconds heartbeat_timeout(std::stoi(argv[1]));
  const std::string kind = argv[2];
  const auto resolver = ls::cluster::from_environment();
  const auto spec = resolver->cluster_spec();
  const int worker = ls::cluster::id_in_cluster(spec, *resolver->task_type(), *resolver->task_id());
  std::vector<ls::Device> devices;
  for (int i = 0; i < kReplicas; ++i)  // all workers see all GPUs
    devices.emplace_back(kind + ":" + std::to_string(kind == "GPU" ? worker * kReplicas + i : i));

  std::vector<Step> steps;  // whose results have not been read
  try {
    ls::MultiWorkerMirroredStrategy strategy(resolver, {},
                                             {.devices = devices, .heartbeat_timeout = heartbeat_timeout});
    std::cout << "started" << std::endl;
    for (int number = 0;; ++number) {
      constexpr std::int64_t kLengths[] = {1, 5'000, 2'000'000};
      auto sums = strategy.run([&](ls::ReplicaContext& context) {
        return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::full({kLengths[number % 3]}, given(number)));
      });
      const auto num_replicas = static_cast<float>(strategy.num_replicas_in_sync());
      steps.push_back({number, num_replicas * given(number), std::move(sums)});
      if (steps.size() < 2) continue;
      if (!is_right(steps.front())) std::cout << "wrong: step " << steps.front().number << std::endl;
      steps.erase(steps.begin());
    }
  } catch (const ls::PeerLost& error) {
    std::cout << "lost: " << error.what() << std::endl;
  } catch (const std::exception& error) {
    std::cout << "another error: " << error.what() << std::endl;
    return 1;
  }
  for (const Step& step : steps) {
    try {
      if (!is_right(step)) std::cout << "wrong: step " << step.number << std::endl;
    } catch (const ls::PeerLost&) {
      continue;
    }
  }
}

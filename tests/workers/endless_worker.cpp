// endless_worker SILENCE_MS CPU|GPU [START_MS]
//
// Reduces over all workers until one of them is lost, and says so; for kill_workers.sh and cut_links.sh. No
// result that it reads may be wrong, also none of a step that the loss has ended. Then each line of the
// standard input is another TF_CONFIG, whose workers reduce some times.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

namespace {

constexpr int kReplicas = 2;  // of each worker

struct Settings {
  std::chrono::milliseconds silence{};
  std::chrono::milliseconds start{};  // 0: no limit
  std::string kind;
};

/// What a replica gives in a step; neighbouring steps have other numbers.
float given(int step) { return static_cast<float>(step % 97 + 1); }

struct Step {
  int number;
  float expected;
  ls::PerReplica<ls::Tensor> sums;
};

/// Waits for a step's results. @throws PeerLost
void check(const Step& step) {
  for (const ls::Tensor& sum : step.sums) {
    const std::vector<float> values = sum.to_vector<float>();
    if (!std::ranges::all_of(values, [&](float value) { return value == step.expected; }))
      std::cout << "wrong: step " << step.number << std::endl;
  }
}

std::vector<ls::Device> devices_of(const std::string& kind, const ls::cluster::Resolver& resolver) {
  const int worker =
      ls::cluster::id_in_cluster(resolver.cluster_spec(), *resolver.task_type(), *resolver.task_id());
  std::vector<ls::Device> devices;
  for (int i = 0; i < kReplicas; ++i)  // all workers see all GPUs
    devices.emplace_back(kind + ":" + std::to_string(kind == "GPU" ? worker * kReplicas + i : i));
  return devices;
}

int train(const ls::cluster::EnvironmentVariables& variables, const Settings& settings, int num_steps) {
  static std::vector<std::unique_ptr<ls::Strategy>> lost;  // what lives on keeps no port
  std::unique_ptr<ls::Strategy> strategy;
  std::vector<Step> steps;  // whose results have not been read
  int status = 0;
  try {
    const auto resolver = ls::cluster::from_environment(variables);
    strategy = std::make_unique<ls::MultiWorkerMirroredStrategy>(
        resolver, ls::CommunicationOptions{},
        ls::WorkerOptions{.devices = devices_of(settings.kind, *resolver),
                          .start_timeout = settings.start,
                          .heartbeat_timeout = settings.silence});
    std::cout << "started" << std::endl;
    const auto num_replicas = static_cast<float>(strategy->num_replicas_in_sync());
    for (int number = 0; number < num_steps; ++number) {
      constexpr std::int64_t kLengths[] = {1, 5'000, 2'000'000};
      auto sums = strategy->run([&](ls::ReplicaContext& context) {
        return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::full({kLengths[number % 3]}, given(number)));
      });
      steps.push_back({number, num_replicas * given(number), std::move(sums)});
      if (steps.size() < 2) continue;
      check(steps.front());
      steps.erase(steps.begin());
    }
    std::cout << "reduced over " << num_replicas << " replicas" << std::endl;
  } catch (const ls::PeerLost& error) {
    std::cout << "lost: " << error.what() << std::endl;
    lost.push_back(std::move(strategy));
  } catch (const std::exception& error) {
    std::cout << "another error: " << error.what() << std::endl;
    status = 1;
  }
  for (const Step& step : steps) {
    try {
      check(step);
    } catch (const ls::PeerLost&) {
      continue;
    }
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = {.silence = std::chrono::milliseconds(std::stoi(argv[1])),
                             .start = std::chrono::milliseconds(argc > 3 ? std::stoi(argv[3]) : 0),
                             .kind = argv[2]};
  ls::cluster::EnvironmentVariables variables = ls::cluster::environment_variables();
  int status = train(variables, settings, std::numeric_limits<int>::max());
  while (std::getline(std::cin, variables["TF_CONFIG"])) status |= train(variables, settings, 30);
  return status;
}

// endless_worker [SILENCE_MS [START_MS]]
//
// Reduces over all workers until one of them is lost, and says so. Then each line of the standard input is
// another TF_CONFIG, whose workers reduce some times. For kill_workers.sh and cut_links.sh.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

namespace {

constexpr int kLocalReplicas = 2;

/// The sum over all replicas of numbers that no two steps share.
void reduce(ls::Strategy& strategy, int step) {
  constexpr std::int64_t kLengths[] = {1, 5'000, 2'000'000};
  constexpr int kPeriod = 1000;
  const auto number_of = [&](int replica) { return static_cast<float>(step % kPeriod * 10 + replica); };
  float expected = 0;
  for (int replica = 0; replica < strategy.num_replicas_in_sync(); ++replica) expected += number_of(replica);
  strategy.run([&](ls::ReplicaContext& context) {
    const std::int64_t length = kLengths[step % 3];
    const ls::Tensor sum = context.all_reduce(
        ls::ReduceOp::sum, ls::Tensor::full({length}, number_of(context.replica_id_in_sync_group())));
    for (const std::int64_t i : {std::int64_t{0}, length / 2, length - 1})
      if (sum.slice(i, i + 1).item<float>() != expected)
        throw std::logic_error("step " + std::to_string(step) + " has a wrong sum");
  });
}

int train(const ls::cluster::EnvironmentVariables& variables, const ls::WorkerOptions& options,
          int num_steps) {
  static std::vector<std::unique_ptr<ls::Strategy>> lost;  // what lives on keeps no port
  std::unique_ptr<ls::Strategy> strategy;
  try {
    strategy = std::make_unique<ls::MultiWorkerMirroredStrategy>(ls::cluster::from_environment(variables),
                                                                 ls::CommunicationOptions{}, options);
    std::cout << "started" << std::endl;
    for (int step = 0; step < num_steps; ++step) reduce(*strategy, step);
    std::cout << "reduced over " << strategy->num_replicas_in_sync() << " replicas" << std::endl;
    return 0;
  } catch (const ls::PeerLost& error) {
    std::cout << "lost: " << error.what() << std::endl;
    lost.push_back(std::move(strategy));
    return 0;
  } catch (const std::exception& error) {
    std::cout << "another error: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  ls::WorkerOptions options;
  for (int replica = 0; replica < kLocalReplicas; ++replica)
    options.devices.emplace_back(ls::DeviceKind::cpu, replica);
  if (argc > 1) options.heartbeat_timeout = std::chrono::milliseconds(std::stoi(argv[1]));
  if (argc > 2) options.start_timeout = std::chrono::milliseconds(std::stoi(argv[2]));
  ls::cluster::EnvironmentVariables variables = ls::cluster::environment_variables();
  int status = train(variables, options, std::numeric_limits<int>::max());
  while (std::getline(std::cin, variables["TF_CONFIG"])) status |= train(variables, options, 30);
  return status;
}

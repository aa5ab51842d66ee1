// Reduces over all workers until one of them is lost, and says so; for kill_workers.sh.
#include <chrono>
#include <iostream>
#include <string>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main(int argc, char** argv) {
  const std::chrono::milliseconds heartbeat_timeout(argc > 1 ? std::stoi(argv[1]) : 5000);
  try {
    ls::MultiWorkerMirroredStrategy strategy(
        ls::cluster::from_environment(), {},
        {.devices = {"CPU:0", "CPU:1"}, .heartbeat_timeout = heartbeat_timeout});
    std::cout << "started" << std::endl;
    for (int step = 0;; ++step) {
      constexpr std::int64_t kLengths[] = {1, 5'000, 2'000'000};
      strategy.run([&](ls::ReplicaContext& context) {
        static_cast<void>(
            context.all_reduce(ls::ReduceOp::sum, ls::Tensor::full({kLengths[step % 3]}, 1.0f)));
      });
    }
  } catch (const ls::PeerLost& error) {
    std::cout << "lost: " << error.what() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << "another error: " << error.what() << std::endl;
    return 1;
  }
}

// lockstep_soak FOLDER SECONDS PAUSE_MS
//
// Trains for so many seconds on 2 replicas of each worker, and goes on after the newest checkpoint of FOLDER.
// The chief adds a line "STEP DIGEST" to FOLDER/steps after each step: equal steps must have equal digests,
// whoever has made them. Without TF_CONFIG the process trains in many lives, each with a strategy of its own
// that a failing replica ends, and fails if memory, threads, descriptors or mappings grow. Else it is one
// worker of soak.sh, which is killed.
#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <lockstep/lockstep.hpp>

#include "trainer.hpp"
#include "usage.hpp"

namespace {

namespace ls = lockstep;
using Clock = std::chrono::steady_clock;

constexpr int kStepsPerLife = 50;

struct Soak {
  std::filesystem::path folder;
  Clock::time_point end;
  std::chrono::milliseconds pause;

  void train(ls::Strategy& strategy, int num_steps, bool fails) const {
    ls::soak::Trainer trainer(strategy, folder / "rows.csv", folder / "checkpoints");
    const bool is_chief = strategy.extended().should_save_summary();
    std::ofstream steps(folder / "steps", std::ios::app);
    if (is_chief) steps << std::endl;  // a line that a kill has cut
    for (int i = 0; i < num_steps && Clock::now() < end; ++i) {
      trainer.step();
      if (is_chief)
        steps << trainer.num_steps() << ' ' << std::hex << trainer.digest() << std::dec << std::endl;
      trainer.save_if_due();  // a step that is saved is not made again, so its line is there before
      std::this_thread::sleep_for(pause);
    }
    trainer.finish();
    if (!fails) return;
    try {
      trainer.failing_step();
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()).find("a replica has failed") == std::string::npos) throw;
      return;
    }
    throw std::logic_error("the failing step has not failed");
  }

  int live() const {
    ls::soak::UsageHistory history;
    int num_lives = 0;
    for (; Clock::now() < end; ++num_lives) {
      {
        ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
        train(strategy, kStepsPerLife, num_lives % 2 == 0);
      }
      const ls::soak::Usage usage = ls::soak::Usage::now();
      history.add(usage);
      std::cout << "life " << num_lives << ": " << usage.resident_kib << " KiB resident, "
                << usage.num_threads << " threads, " << usage.num_descriptors << " descriptors, "
                << usage.num_mappings << " mappings" << std::endl;
    }
    const std::string growth = history.growth();
    std::cout << num_lives << " lives: " << (growth.empty() ? "nothing has grown" : "grown: " + growth)
              << std::endl;
    return growth.empty() ? 0 : 1;
  }

  int work(const std::shared_ptr<ls::cluster::Resolver>& cluster) const {
    ls::MultiWorkerMirroredStrategy strategy(
        cluster, {}, {.devices = {"CPU:0", "CPU:1"}, .heartbeat_timeout = std::chrono::seconds(60)});
    std::cout << "started" << std::endl;
    train(strategy, std::numeric_limits<int>::max(), false);
    return 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "lockstep_soak FOLDER SECONDS PAUSE_MS\n";
    return 2;
  }
  try {
    const Soak soak{.folder = argv[1],
                    .end = Clock::now() + std::chrono::seconds(std::stoi(argv[2])),
                    .pause = std::chrono::milliseconds(std::stoi(argv[3]))};
    std::filesystem::create_directories(soak.folder);
    ls::soak::write_rows(soak.folder / "rows.csv");
    const auto cluster = ls::cluster::from_environment();
    return cluster->cluster_spec().empty() ? soak.live() : soak.work(cluster);
  } catch (const ls::PeerLost& lost) {
    std::cout << "lost: " << lost.what() << std::endl;
    return 3;
  } catch (const std::exception& error) {
    std::cout << "failed: " << error.what() << std::endl;
    return 1;
  }
}

// Workers that go on without those that are lost.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/optim/momentum.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"
#include "support/worker_processes.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using test::TemporaryDirectory;
using test::WorkerProcesses;
using Workers = MultiWorkerMirroredStrategy;

namespace {

constexpr int kPassed = 3;
constexpr int kExited = 4;
constexpr std::int64_t kLastStep = 60;
constexpr std::int64_t kNumWeights = 1000;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::unique_ptr<Workers> make_workers(std::chrono::milliseconds heartbeat = 5000ms,
                                      std::chrono::milliseconds start = 0ms) {
  return std::make_unique<Workers>(
      cluster::from_environment(), CommunicationOptions{},
      WorkerOptions{.devices = {"CPU:0", "CPU:1"}, .start_timeout = start, .heartbeat_timeout = heartbeat});
}

constexpr std::int64_t kNever = -1;

/// Trains up to the last step from the newest checkpoint of the folder, and says where it begins and what the
/// weights are in the end, to the bit. @param exit_at  the step in which a replica calls exit.
void train(Strategy& strategy, const std::filesystem::path& folder, std::chrono::milliseconds pause,
           std::int64_t exit_at = kNever) {
  const auto scope = strategy.scope();
  Variable weights(Tensor::zeros({kNumWeights}), {.name = "weights"});
  optim::Momentum momentum({.learning_rate = 0.1, .momentum = 0.9});
  momentum.build({weights});
  Checkpoint checkpoint({{"weights", weights}});
  checkpoint.add("momentum", momentum);
  CheckpointManager manager(checkpoint, folder, {.max_to_keep = 100, .asynchronous = true});
  const std::int64_t first = manager.restore_latest().value_or(0);
  say("begins at " + std::to_string(first));
  for (std::int64_t step = first; step < kLastStep;) {
    strategy.run([&](ReplicaContext& ctx) {
      if (step == exit_at && ctx.replica_id_in_sync_group() % 2 == 0) std::exit(kExited);
      const auto id = static_cast<float>(ctx.replica_id_in_sync_group() + 1);
      const Tensor target =
          Tensor::arange<float>(0, kNumWeights) * (0.37f * id / static_cast<float>(step + 3));
      momentum.apply_gradients({{weights.value() - target, weights}});
    });
    ++step;
    say("step " + std::to_string(step) + ".");
    if (step % 5 == 0) manager.save(step);
    std::this_thread::sleep_for(pause);
  }
  manager.wait();
  const auto values = weights.value().to_vector<float>();
  std::uint64_t bits = 0xcbf29ce484222325;  // FNV-1a
  for (const float value : values) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    bits = (bits ^ word) * 0x100000001b3;
  }
  say("weights " + std::to_string(bits) + " of " + std::to_string(strategy.num_replicas_in_sync()));
}

/// The same, going on without whoever is lost.
int train_to_the_end(const std::filesystem::path& folder, std::chrono::milliseconds heartbeat = 5000ms,
                     std::int64_t exit_at = kNever, std::chrono::milliseconds start = 0ms) {
  std::unique_ptr<Workers> workers = make_workers(heartbeat, start);
  for (;;) {
    try {
      train(*workers, folder, 5ms, exit_at);
      return kPassed;
    } catch (const PeerLost& error) {
      say(std::string("lost: ") + error.what());
      workers = workers->shrink();
    }
  }
}

/// What follows the last such text in the line.
std::string last_after(const std::string& output, const std::string& text) {
  const std::size_t begin = output.rfind(text);
  if (begin == output.npos) return "";
  return output.substr(begin + text.size(), output.find('\n', begin) - begin - text.size());
}

/// The last line of weights that workers of that number say which begin at that step.
std::string undisturbed(int num_workers, const TemporaryDirectory& from, const std::string& step) {
  const TemporaryDirectory folder;
  const std::string name = "checkpoint-" + step + ".safetensors";
  if (step != "0") std::filesystem::copy(from / name, folder / name);
  WorkerProcesses workers(num_workers, [&](int) {
    train(*make_workers(), folder.path(), 0ms);
    return kPassed;
  });
  const auto results = workers.wait();
  CAPTURE(results[0].output);
  CHECK(results[0].status == kPassed);
  return last_after(results[0].output, "weights ");
}

}  // namespace

TEST_CASE("the workers that are left train on as if they had been so many from that checkpoint on",
          "[workers][host]") {
  const auto [num_workers, killed] =
      GENERATE(std::pair<int, std::vector<int>>{2, {1}}, std::pair<int, std::vector<int>>{3, {1}},
               std::pair<int, std::vector<int>>{3, {0}}, std::pair<int, std::vector<int>>{4, {2, 3}},
               std::pair<int, std::vector<int>>{4, {1, 2}});
  const std::string at = "step " + std::to_string(GENERATE(3, 22)) + ".";
  CAPTURE(num_workers, killed, at);
  const TemporaryDirectory folder;
  WorkerProcesses workers(num_workers, [&](int) { return train_to_the_end(folder.path()); });
  REQUIRE(workers.wait_for_output(killed[0], at));
  for (const int one : killed) workers.signal(one, SIGKILL);
  const auto results = workers.wait();
  const int num_left = num_workers - static_cast<int>(killed.size());
  std::string begin, weights;
  for (int worker = 0; worker < num_workers; ++worker) {
    const test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    CAPTURE(worker, result.output);
    if (std::ranges::find(killed, worker) != killed.end()) {
      CHECK(result.status == -SIGKILL);
      continue;
    }
    CHECK(result.status == kPassed);
    if (weights.empty()) weights = last_after(result.output, "weights ");
    if (begin.empty()) begin = last_after(result.output, "begins at ");
    CHECK_FALSE(weights.empty());
    CHECK(last_after(result.output, "weights ") == weights);
    CHECK(last_after(result.output, "begins at ") == begin);
    CHECK_THAT(result.output, ContainsSubstring(" was lost: its connection was closed"));
  }
  CHECK_THAT(weights, ContainsSubstring(" of " + std::to_string(2 * num_left)));
  CHECK(undisturbed(num_left, folder, begin) == weights);
}

TEST_CASE("the workers that are left train on where others are lost with the chief", "[workers][host]") {
  const auto [num_workers, killed] =
      GENERATE(std::pair<int, std::vector<int>>{4, {0, 1}}, std::pair<int, std::vector<int>>{4, {0, 2}},
               std::pair<int, std::vector<int>>{3, {0, 1}}, std::pair<int, std::vector<int>>{5, {0, 1, 3}});
  const auto pause = GENERATE(0ms, 12ms);  // the others may be on their way, without the first
  CAPTURE(num_workers, killed, pause);
  const TemporaryDirectory folder;
  WorkerProcesses workers(num_workers, [&](int) {
    return train_to_the_end(folder.path(), 1000ms, kNever, 2500ms);  // which each lost leader takes
  });
  REQUIRE(workers.wait_for_output(killed[0], "step 22."));
  for (const int one : killed) {
    workers.signal(one, SIGKILL);
    std::this_thread::sleep_for(pause);
  }
  const auto results = workers.wait();
  std::string weights;
  for (int worker = 0; worker < num_workers; ++worker) {
    if (std::ranges::find(killed, worker) != killed.end()) continue;
    const test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    CAPTURE(worker, result.output);
    CHECK(result.status == kPassed);
    if (weights.empty()) weights = last_after(result.output, "weights ");
    CHECK(last_after(result.output, "weights ") == weights);
  }
  const int num_left = num_workers - static_cast<int>(killed.size());
  CHECK_THAT(weights, ContainsSubstring(" of " + std::to_string(2 * num_left)));
}

TEST_CASE("the workers that are left train on where another one has called exit in a step",
          "[workers][host]") {
  const int num_workers = GENERATE(2, 3), exiting = GENERATE(0, 1);
  const TemporaryDirectory folder;
  WorkerProcesses workers(num_workers, [&](int worker) {
    return train_to_the_end(folder.path(), 5000ms, worker == exiting ? 12 : kNever);
  });
  const auto results = workers.wait();
  for (int worker = 0; worker < num_workers; ++worker) {
    const test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    CAPTURE(worker, result.output);
    CHECK(result.status == (worker == exiting ? kExited : kPassed));
    if (worker == exiting) continue;
    CHECK_THAT(result.output, ContainsSubstring(" has ended in a call of the strategy"));
    CHECK_THAT(result.output, ContainsSubstring("begins at 10"));
    CHECK_THAT(result.output, ContainsSubstring(" of " + std::to_string(2 * (num_workers - 1))));
    CHECK(last_after(result.output, "weights ") == undisturbed(num_workers - 1, folder, "10"));
  }
}

TEST_CASE("a worker that was silent for too long does not come back, and the others go on",
          "[workers][host]") {
  const TemporaryDirectory folder;
  WorkerProcesses workers(3, [&](int worker) {
    try {
      return train_to_the_end(folder.path(), 400ms);
    } catch (const ContextError& error) {
      say(error.what());
      return worker == 2 ? kPassed : 1;
    }
  });
  REQUIRE(workers.wait_for_output(2, "step 7."));
  workers.signal(2, SIGSTOP);
  CHECK(workers.wait_for_output(0, "weights "));
  workers.signal(2, SIGCONT);
  const auto results = workers.wait();
  for (const test::WorkerResult& result : results) {
    CAPTURE(result.output);
    CHECK(result.status == kPassed);
  }
  CHECK_THAT(results[0].output, ContainsSubstring(" of 4"));
  CHECK_THAT(results[2].output, ContainsSubstring("this one, worker 2, was silent"));
}

TEST_CASE("min_workers is at least 1", "[workers][host]") {
  CHECK_THROWS_MATCHES(Workers(cluster::from_environment(), {}, {.min_workers = 0}), InvalidArgument,
                       test::says("MultiWorkerMirroredStrategy: min_workers is 0. Give at least 1."));
}

TEST_CASE("fewer workers than min_workers do not go on", "[workers][host]") {
  WorkerProcesses workers(3, [&](int worker) {
    auto strategy = std::make_unique<Workers>(cluster::from_environment(), CommunicationOptions{},
                                              WorkerOptions{.devices = {"CPU:0"}, .min_workers = 2});
    const auto step = [&](int exiting) {
      try {
        strategy->run([&](ReplicaContext& ctx) {
          if (worker == exiting) std::exit(kExited);
          static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
        });
      } catch (const PeerLost&) {
        return true;
      }
      return false;
    };
    if (!step(2)) return 1;
    strategy = strategy->shrink();
    if (!step(1)) return 2;
    try {
      static_cast<void>(strategy->shrink());
    } catch (const ContextError& error) {
      say(error.what());
      return kPassed;
    }
    return 3;
  });
  const auto results = workers.wait();
  CAPTURE(results[0].output);
  CHECK(results[0].status == kPassed);
  CHECK(results[1].status == kExited);
  CHECK(results[2].status == kExited);
  CHECK_THAT(results[0].output,
             ContainsSubstring("shrink: 1 worker is left, and min_workers is 2. Start all"));
}

TEST_CASE("a worker that comes too late does not go on alone, too", "[workers][host]") {
  const TemporaryDirectory folder;
  const std::filesystem::path is_alone = folder / "alone", is_told = folder / "told";
  const auto await = [](const std::filesystem::path& path) {
    while (!std::filesystem::exists(path)) std::this_thread::sleep_for(1ms);
  };
  WorkerProcesses workers(3, [&](int worker) {
    const auto strategy = std::make_unique<Workers>(
        cluster::from_environment(), CommunicationOptions{},
        WorkerOptions{.devices = {"CPU:0"}, .start_timeout = 2000ms, .heartbeat_timeout = 1000ms});
    try {
      strategy->run([&](ReplicaContext& ctx) {
        if (worker == 2) std::exit(kExited);
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
      });
      return 1;
    } catch (const PeerLost&) {
    }
    if (worker == 1) await(is_alone);
    try {
      const auto shrunk = strategy->shrink();
      if (worker == 1) return 2;
      std::filesystem::create_directory(is_alone);
      await(is_told);
      return shrunk->num_replicas_in_sync() == 1 ? kPassed : 3;
    } catch (const ContextError& error) {
      say(error.what());
      std::filesystem::create_directory(is_told);
      return worker == 1 ? kPassed : 4;
    }
  });
  const auto results = workers.wait();
  CAPTURE(results[0].output, results[1].output);
  CHECK(results[0].status == kPassed);
  CHECK(results[1].status == kPassed);
  CHECK_THAT(results[1].output, ContainsSubstring("comes after the workers have started"));
}

TEST_CASE("a cluster that has lost nobody does not shrink", "[workers][host]") {
  WorkerProcesses workers(2, [&](int) {
    const auto strategy = make_workers();
    const auto message_of = [&] {
      try {
        static_cast<void>(strategy->shrink());
      } catch (const ContextError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    if (message_of().find("shrink: no worker is lost. Call it after a call of the strategy has thrown") ==
        std::string::npos)
      return 1;
    strategy->run([](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1)); });
    return kPassed;
  });
  for (const test::WorkerResult& result : workers.wait()) {
    CAPTURE(result.output);
    CHECK(result.status == kPassed);
  }
}

TEST_CASE("without the next one's address workers cannot go on without the chief", "[workers][host]") {
  const TemporaryDirectory folder;
  WorkerProcesses workers(3,
                          [&](int) {
                            try {
                              return train_to_the_end(folder.path());
                            } catch (const ContextError& error) {
                              say(error.what());
                              return kPassed;
                            }
                          },
                          {.launch = test::Launch::torchrun});
  REQUIRE(workers.wait_for_output(0, "step 2."));
  workers.signal(0, SIGKILL);
  const auto results = workers.wait();
  for (const int worker : {1, 2}) {
    CAPTURE(results[static_cast<std::size_t>(worker)].output);
    CHECK(results[static_cast<std::size_t>(worker)].status == kPassed);
    CHECK_THAT(results[static_cast<std::size_t>(worker)].output,
               ContainsSubstring("worker 1 would lead those that are left, and its address is not known"));
  }
}

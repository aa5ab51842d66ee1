// Workers that others join while they train.
#include <chrono>
#include <csignal>
#include <cstdint>
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
#include <lockstep/input/dataset.hpp>
#include <lockstep/optim/momentum.hpp>
#include <lockstep/strategy/input.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "support/elastic_workers.hpp"
#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"
#include "support/worker_processes.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using test::addresses;
using test::check_passed;
using test::join;
using test::kPassed;
using test::say;
using test::start;
using test::sum;
using test::TemporaryDirectory;
using test::worker_options;
using test::WorkerProcesses;
using test::Workers;

namespace {

constexpr std::int64_t kNumRows = 480, kBatch = 12, kLastStep = kNumRows / kBatch;

std::string bits_of(const std::vector<float>& values) {
  std::uint64_t bits = 0xcbf29ce484222325;  // FNV-1a
  for (const float value : values) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    bits = (bits ^ word) * 0x100000001b3;
  }
  return std::to_string(bits);
}

/// When a worker stops, or ends.
struct Plan {
  std::int64_t last_step = kLastStep;
  std::chrono::milliseconds pause = 5ms;
  bool grows = true;
};

/// Trains from the newest checkpoint of the folder, whose position in the data goes with it, and says which
/// rows it has used. Returns where others wait to join, or at the last step.
bool train(Workers& strategy, const std::filesystem::path& folder, const Plan& plan) {
  const auto scope = strategy.scope();
  const auto rows = Dataset::from_tensor_slices(Tensor::arange<float>(0, kNumRows));
  const auto data = strategy.distribute_dataset(rows.shuffle(kNumRows, 7).batch(kBatch),
                                                {.auto_shard_policy = AutoShardPolicy::data});
  auto pass = data.iterator();
  Variable weights(Tensor::zeros({1000}), {.name = "weights"});
  Variable step(Tensor::scalar(std::int64_t{0}),
                {.name = "step", .aggregation = VariableAggregation::only_first_replica});
  optim::Momentum momentum({.learning_rate = 0.1, .momentum = 0.9});
  momentum.build({weights});
  Checkpoint checkpoint({{"weights", weights}, {"step", step}});
  checkpoint.add("momentum", momentum).add("input", pass);
  CheckpointManager manager(checkpoint, folder, {.max_to_keep = 1000});
  const std::int64_t first = manager.restore_latest().value_or(0);
  say("begins at " + std::to_string(first) + " with " + std::to_string(strategy.num_replicas_in_sync()));
  for (std::int64_t number = first; number < plan.last_step; ++number) {
    if (plan.grows && strategy.num_waiting() > 0) {
      manager.save(number);
      return false;
    }
    const auto batch = pass.next_optional();
    if (!batch) throw Error("the data ends too early");
    std::string used = "rows";
    for (const Tensor& part : *batch)
      for (const float row : part.to_vector<float>()) used += " " + std::to_string(static_cast<int>(row));
    strategy.run(
        [&](ReplicaContext&, const Tensor& part) {
          const Tensor target = Tensor::arange<float>(0, 1000) * 0.37f;
          float sum = 0;
          for (const float row : part.to_vector<float>()) sum += row;
          momentum.apply_gradients({{weights.value() - target * (sum / 1000.0f), weights}});
        },
        *batch);
    say("step " + std::to_string(number) + ": " + used);
    if (number % 5 == 4) manager.save(number + 1);
    std::this_thread::sleep_for(plan.pause);
  }
  if (plan.last_step == kLastStep && pass.next_optional()) throw Error("the data goes on");
  say("weights " + bits_of(weights.value().to_vector<float>()) + " of " +
      std::to_string(strategy.num_replicas_in_sync()));
  return true;
}

/// The same to the end, with whoever joins, and without whoever is lost.
int train_elastically(std::unique_ptr<Workers> workers, const std::filesystem::path& folder,
                      const Plan& plan = {}) {
  for (;;) {
    try {
      if (train(*workers, folder, plan)) return kPassed;
      if (auto grown = workers->grow()) workers = std::move(grown);
    } catch (const PeerLost& error) {
      say(std::string("lost: ") + error.what());
      workers = workers->shrink();
    }
  }
}

std::string last_after(const std::string& output, const std::string& text) {
  const std::size_t begin = output.rfind(text);
  if (begin == output.npos) return "";
  return output.substr(begin + text.size(), output.find('\n', begin) - begin - text.size());
}

/// The last line of weights of so many workers that begin at that step of another's folder.
std::string undisturbed(int num_workers, const TemporaryDirectory& from, const std::string& step) {
  const TemporaryDirectory folder;
  const std::string name = "checkpoint-" + step + ".safetensors";
  std::filesystem::copy(from / name, folder / name);
  WorkerProcesses workers(num_workers, [&](int worker) {
    train(*start(worker, num_workers), folder.path(), {.pause = 0ms, .grows = false});
    return kPassed;
  });
  const auto results = workers.wait();
  CAPTURE(results[0].output);
  CHECK(results[0].status == kPassed);
  return last_after(results[0].output, "weights ");
}

}  // namespace

TEST_CASE("those who join train on with the others as if they had been so many from there on",
          "[workers][host]") {
  const auto [num_first, num_joining] =
      GENERATE(std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 3}, std::pair{3, 2});
  CAPTURE(num_first, num_joining);
  const TemporaryDirectory folder;
  const int num_all = num_first + num_joining;
  WorkerProcesses workers(num_all, [&, first = num_first](int worker) {
    if (worker >= first) {
      while (!std::filesystem::exists(folder / "checkpoint-5.safetensors")) std::this_thread::sleep_for(1ms);
      return train_elastically(join(worker), folder.path());
    }
    return train_elastically(start(worker, first), folder.path());
  });
  const auto results = workers.wait();
  check_passed(results);
  const std::string weights = last_after(results[0].output, "weights ");
  CHECK_THAT(weights, ContainsSubstring(" of " + std::to_string(num_all)));
  std::vector<int> uses(kNumRows);  // of the steps that count: those after the last beginning before them
  const std::string begin = last_after(results[0].output, "begins at ");
  for (const test::WorkerResult& result : results) {
    CHECK(last_after(result.output, "weights ") == weights);
    CHECK(last_after(result.output, "begins at ") == begin);
    for (std::size_t at = result.output.find("rows"); at != std::string::npos;
         at = result.output.find("rows", at + 1)) {
      const std::string line = result.output.substr(at + 4, result.output.find('\n', at) - at - 4);
      for (std::size_t i = 0; i < line.size();) {
        std::size_t size = 0;
        ++uses[static_cast<std::size_t>(std::stoi(line.substr(i), &size))];
        i += size;
      }
    }
  }
  CHECK(uses == std::vector<int>(kNumRows, 1));  // no step was lost
  CHECK(undisturbed(num_all, folder, begin.substr(0, begin.find(' '))) == weights);
}

TEST_CASE("a worker joins, another one is lost later, and those who are left train on", "[workers][host]") {
  const int killed = GENERATE(0, 1, 2);
  CAPTURE(killed);
  const TemporaryDirectory folder;
  WorkerProcesses workers(3, [&](int worker) {
    if (worker < 2) return train_elastically(start(worker, 2), folder.path());
    while (!std::filesystem::exists(folder / "checkpoint-5.safetensors")) std::this_thread::sleep_for(1ms);
    return train_elastically(join(worker), folder.path());
  });
  REQUIRE(workers.wait_for_output(killed, " with 3"));
  REQUIRE(workers.wait_for_output(killed, "step 26"));
  workers.signal(killed, SIGKILL);
  const auto results = workers.wait();
  std::string begin, weights;
  for (int worker = 0; worker < 3; ++worker) {
    const test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    CAPTURE(worker, result.output);
    CHECK(result.status == (worker == killed ? -SIGKILL : kPassed));
    if (worker == killed) continue;
    if (weights.empty()) weights = last_after(result.output, "weights ");
    if (begin.empty()) begin = last_after(result.output, "begins at ");
    CHECK_FALSE(weights.empty());
    CHECK(last_after(result.output, "weights ") == weights);
    CHECK(last_after(result.output, "begins at ") == begin);
  }
  CHECK_THAT(weights, ContainsSubstring(" of 2"));
  CHECK(undisturbed(2, folder, begin.substr(0, begin.find(' '))) == weights);
}

TEST_CASE("who is lost is replaced by one that joins those who are left", "[workers][host]") {
  const int num_first = GENERATE(2, 3);  // of two, one is left that works alone
  const TemporaryDirectory folder;
  const int num_left = num_first - 1;
  WorkerProcesses workers(num_first + 1, [&](int worker) {
    if (worker < num_first)
      return train_elastically(start(worker, num_first), folder.path(), {.pause = 20ms});
    while (!std::filesystem::exists(folder / "lost")) std::this_thread::sleep_for(1ms);
    return train_elastically(join(worker), folder.path());
  });
  REQUIRE(workers.wait_for_output(1, "step 7"));
  workers.signal(1, SIGKILL);
  std::filesystem::create_directory(folder / "lost");
  const auto results = workers.wait();
  const std::string weights = last_after(results[0].output, "weights ");
  for (int worker = 0; worker <= num_first; ++worker) {
    const test::WorkerResult& result = results[static_cast<std::size_t>(worker)];
    CAPTURE(worker, result.output);
    CHECK(result.status == (worker == 1 ? -SIGKILL : kPassed));
    if (worker != 1) CHECK(last_after(result.output, "weights ") == weights);
  }
  CHECK_THAT(results[0].output, ContainsSubstring(" with " + std::to_string(num_left) + "\n"));
  CHECK_THAT(weights, ContainsSubstring(" of " + std::to_string(num_left + 1)));
}

TEST_CASE("the state comes from the chief where there is no checkpoint, and the old strategy stays usable",
          "[workers][host]") {
  WorkerProcesses workers(3, [&](int worker) {
    std::unique_ptr<Workers> old, grown;
    Tensor state = Tensor::zeros({3});
    if (worker < 2) {
      old = start(worker, 2);
      const Variable weights = old->make_variable(Tensor::full({3}, 0.1f), {.name = "weights"});
      while (old->num_waiting() == 0) sum(*old, 1);
      grown = old->grow();
      if (grown == nullptr) return 1;
      state = weights.value();
      if (old->num_waiting() != 0 || old->grow() != nullptr || sum(*old, 2) != 4) return 2;
    } else {
      grown = join(worker);
    }
    const Variable weights = grown->make_variable(state, {.name = "weights"});
    if (weights.value().to_vector<float>() != std::vector<float>(3, 0.1f)) return 4;
    if (sum(*grown, 2) != 6) return 5;
    old.reset();
    if (sum(*grown, 3) != 9 || grown->num_waiting() != 0) return 6;
    const auto second =  // of the same cluster, over the same connection
        std::make_unique<Workers>(grown->cluster_resolver(), CommunicationOptions{}, worker_options());
    if (sum(*second, 1) != 3) return 7;
    grown.reset();
    return sum(*second, 2) == 6 ? kPassed : 8;
  });
  check_passed(workers.wait());
}

TEST_CASE("those who cannot join are told why, and keep nobody else out", "[workers][host]") {
  WorkerProcesses workers(6, [&](int worker) {
    const auto refused = [&](const WorkerOptions& options, int address) {
      try {
        static_cast<void>(
            Workers::join(addresses()[0], {}, options, addresses()[static_cast<std::size_t>(address)]));
      } catch (const InvalidArgument& error) {
        say(error.what());
        return kPassed;
      }
      return 1;
    };
    if (worker == 2) return refused(worker_options(2), worker);
    WorkerOptions stranger = worker_options();
    stranger.token = "guess";
    if (worker == 3) return refused(stranger, worker);
    if (worker == 4) return refused(worker_options(), 1);  // as if it were that worker
    std::unique_ptr<Workers> strategy;
    if (worker == 5) {
      strategy = join(worker);
    } else {
      strategy = start(worker, 2);
      while (strategy->num_waiting() < 2) std::this_thread::sleep_for(1ms);
      if (strategy->grow() != nullptr) return 2;  // of the two one has another number of devices
      if (sum(*strategy, 1) != 2) return 4;
      std::unique_ptr<Workers> grown;
      while (grown == nullptr) grown = strategy->grow();
      strategy = std::move(grown);
    }
    return sum(*strategy, 1) == 3 ? kPassed : 5;
  });
  const auto results = workers.wait();
  check_passed(results);
  CHECK_THAT(results[0].output,
             ContainsSubstring("grow: nobody joins now, and the workers go on as they were: "
                               "MultiWorkerMirroredStrategy: worker "));
  CHECK_THAT(results[2].output, ContainsSubstring(" has 2 devices, worker 0 ("));
  CHECK_THAT(results[3].output, ContainsSubstring("this process does not have worker 0's token"));
  CHECK_THAT(results[4].output,
             ContainsSubstring("its own address " + workers.addresses()[1] + " is that of worker 1 ("));
  CHECK_THAT(results[5].output, ContainsSubstring("join: it waits again, as the workers did not go on"));
}

TEST_CASE("whoever joins is told its own mistakes before it looks for the chief", "[workers][host]") {
  const auto try_to_join = [](const std::string& chief, const WorkerOptions& options,
                              const std::string& own = {}) {
    static_cast<void>(Workers::join(chief, {}, options, own));
  };
  const std::string nobody = "192.0.2.1:2222";  // RFC 5737
  CHECK_THROWS_MATCHES(try_to_join("192.0.2.1:0", {}), InvalidArgument,
                       test::says("'192.0.2.1:0' has port 0"));
  CHECK_THROWS_MATCHES(try_to_join(nobody, {}, "127.0.0.1:0"), InvalidArgument,
                       test::says("'127.0.0.1:0' has port 0"));
  CHECK_THROWS_AS(try_to_join(nobody, {}, std::string("host\0:2222", 10)), InvalidArgument);
  CHECK_THROWS_AS(try_to_join(nobody, {.devices = {"CPU:0", "CPU:0"}}), InvalidArgument);
  CHECK_THROWS_AS(try_to_join(nobody, {.devices = {"CPU:9999"}}), NotFound);
  CHECK_THROWS_AS(try_to_join(nobody, {.start_timeout = -1ms}), InvalidArgument);
  CHECK_THROWS_AS(try_to_join(nobody, {.min_workers = 0}), InvalidArgument);
  CHECK_THROWS_AS(Workers::join(nobody, {.timeout = -1ms}, {}), InvalidArgument);
  CHECK_THROWS_AS(try_to_join(nobody, {.heartbeat_timeout = 199ms}), InvalidArgument);
}

TEST_CASE("who waits and ends does not hold the others up", "[workers][host]") {
  const TemporaryDirectory folder;
  WorkerProcesses workers(3, [&](int worker) {
    if (worker == 2) {
      static_cast<void>(join(worker));
      return 1;
    }
    const auto strategy = start(worker, 2);
    while (strategy->num_waiting() == 0) std::this_thread::sleep_for(1ms);
    say("it waits");
    while (strategy->num_waiting() != 0) std::this_thread::sleep_for(1ms);
    return strategy->grow() == nullptr ? kPassed : 2;
  });
  REQUIRE(workers.wait_for_output(0, "it waits"));
  workers.signal(2, SIGKILL);
  CHECK(workers.wait(0).status == kPassed);
  CHECK(workers.wait(1).status == kPassed);
}

TEST_CASE("a process alone without an address is joined by nobody", "[workers][host]") {
  WorkerProcesses workers(1,
                          [&](int) {
                            Workers alone(cluster::from_environment(), {}, worker_options());
                            const auto throws = [&](auto call) {
                              try {
                                alone.run([&] { static_cast<void>(call()); });
                              } catch (const ContextError&) {
                                return true;
                              }
                              return false;
                            };
                            if (!throws([&] { return alone.num_waiting(); })) return 2;
                            if (!throws([&] { return alone.grow(); })) return 3;
                            return alone.num_waiting() == 0 && alone.grow() == nullptr ? kPassed : 1;
                          },
                          {.launch = test::Launch::nothing});
  check_passed(workers.wait());
}

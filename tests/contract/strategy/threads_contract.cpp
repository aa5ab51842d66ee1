#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/replicas.hpp"

/// Strategies, their construction, their threads, and the end of both.
namespace lockstep::test {

TEST_CASE("P24 replica functions run at the same time", "[strategy][threads]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  std::barrier all(n);
  const auto threads = strategy.run([&] {
    for (int k = 0; k < 10; ++k) all.arrive_and_wait();
    return std::this_thread::get_id();
  });
  REQUIRE(std::set(threads.begin(), threads.end()).size() == static_cast<std::size_t>(n));
  REQUIRE(threads[0] == std::this_thread::get_id());
}

TEST_CASE("the threads of a strategy are kept from run to run", "[strategy][threads]") {
  Replicas strategy(3);
  const auto own = [] { return std::this_thread::get_id(); };
  const auto first = strategy.run(own), second = strategy.run(own);
  for (int i : {0, 1, 2}) REQUIRE(first[i] == second[i]);
}

TEST_CASE("replicas enqueue on the streams that are current on the calling thread", "[strategy][threads]") {
  Replicas strategy(2);
  const Stream stream(TestBackend::device(1));
  const StreamScope scope(stream);
  const auto own = strategy.run([&](ReplicaContext& ctx) { return ctx.stream() == stream; });
  REQUIRE((!own[0] && own[1]));
  const auto nested = strategy.run([&](ReplicaContext& ctx) {
    return ctx.merge_call(
        [&](Strategy& s) { return s.run([&](ReplicaContext& inner) { return inner.stream() == stream; }); });
  });
  REQUIRE((!nested[0] && nested[1]));
}

TEST_CASE("P27 two host threads share a strategy", "[strategy][threads]") {
  const int kRounds = kSlowBuild ? 100 : 1000;
  const int n = GENERATE(1, 2, 3);
  Replicas strategy(n);
  std::vector<int> wrong(2, 0);
  on_replicas(2, [&](int caller) {
    const std::int64_t length = caller == 0 ? 7 : 1025;
    for (int round = 0; round < kRounds; ++round) {
      const float value = static_cast<float>(round + caller);
      const auto sums = strategy.run([&](ReplicaContext& ctx) {
        const Tensor total = ctx.all_reduce(ReduceOp::sum, Tensor::full({length}, value));
        return total.size() == length ? total.slice(length - 1, length).item<float>() : -1.0f;
      });
      for (int i = 0; i < n; ++i)
        wrong[static_cast<std::size_t>(caller)] += sums[i] != value * static_cast<float>(n);
    }
  });
  REQUIRE(wrong == std::vector<int>{0, 0});
}

TEST_CASE("P27 host threads reduce, gather and fail on one strategy at once", "[strategy][threads]") {
  const int kRounds = kSlowBuild ? 50 : 300;
  Replicas strategy(2);
  std::vector<int> right(4, 0);
  on_replicas(4, [&](int caller) {
    for (int round = 0; round < kRounds; ++round) {
      int& mine = right[static_cast<std::size_t>(caller)];
      if (caller == 0) {
        mine += strategy.reduce(ReduceOp::sum, strategy.run([&] { return round; })).item<int>() == 2 * round;
      } else if (caller == 1) {
        const auto scope = strategy.scope();
        const Variable variable(Tensor::scalar(round));
        mine += strategy.reduce(ReduceOp::mean, variable).item<int>() == round;
      } else if (caller == 2) {
        try {
          strategy.run([&](ReplicaContext& ctx) {
            if (ctx.replica_id_in_sync_group() == 1) throw round;
            static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
          });
        } catch (int thrown) {
          mine += thrown == round;
        }
      } else {
        const auto merged = strategy.run([&](ReplicaContext& ctx) {
          return ctx.merge_call([&](Strategy& s) { return s.run([&] { return round; })[1]; });
        });
        mine += merged[1] == round;
      }
    }
  });
  REQUIRE(right == std::vector<int>(4, kRounds));
}

TEST_CASE("several strategies work on the same devices at once", "[strategy][threads]") {
  constexpr int kStrategies = 4;
  std::vector<std::unique_ptr<Replicas>> strategies;
  for (int s = 0; s < kStrategies; ++s) strategies.push_back(std::make_unique<Replicas>(2));
  std::vector<int> wrong(kStrategies, 0);
  on_replicas(kStrategies, [&](int s) {
    for (int round = 0; round < 100; ++round) {
      const auto sums = strategies[static_cast<std::size_t>(s)]->run(
          [&](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, s * round).item<int>(); });
      wrong[static_cast<std::size_t>(s)] += sums[1] != 2 * s * round;
    }
  });
  REQUIRE(wrong == std::vector<int>(kStrategies, 0));
}

TEST_CASE("strategies are made and destroyed, used or not", "[strategy][threads]") {
  int sum = 0;
  for (int round = 0; round < 50; ++round) {
    const Replicas unused(3);
    Replicas used(2);
    sum += used.run([](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, 1).item<int>(); })[1];
    Replicas failed(2);
    try {
      failed.run([] { throw 1; });
    } catch (int thrown) {
      sum += thrown;
    }
  }
  REQUIRE(sum == 150);
}

namespace {

/// Tells when its destruction has begun.
class Telling : public MirroredStrategy {
 public:
  explicit Telling(std::atomic<bool>& ends) : MirroredStrategy(TestBackend::devices(2)), ends_(ends) {}
  ~Telling() override { ends_ = true; }

 private:
  std::atomic<bool>& ends_;
};

}  // namespace

TEST_CASE("P40 a strategy answers a run that its destruction waits for", "[strategy][threads]") {
  std::atomic<bool> begun = false, ends = false;
  std::vector<int> wrong(2, 0);
  auto strategy = std::make_unique<Telling>(ends);
  const auto variable = strategy->make_variable(Tensor::scalar(5.0f));
  std::thread other([&, running = strategy.get()] {
    running->run([&](ReplicaContext& ctx) {
      int& mine = wrong[static_cast<std::size_t>(ctx.replica_id_in_sync_group())];
      begun = true;
      while (!ends) std::this_thread::yield();
      for (int i = 0; i < 200; ++i) {
        mine += get_strategy().name() != "MirroredStrategy";
        mine += ctx.merge_call(
            [&](Strategy& s) { return s.extended().non_slot_devices({variable}).devices.size() != 2; });
        try {
          running->run([] {});
          ++mine;
        } catch (const ContextError& error) {
          mine += std::string(error.what()).find("MirroredStrategy") == std::string::npos;
        }
        std::this_thread::yield();
      }
    });
  });
  while (!begun) std::this_thread::yield();
  strategy.reset();
  other.join();
  REQUIRE(wrong == std::vector<int>{0, 0});
}

TEST_CASE("P40 the destruction of a strategy waits for another thread's run", "[strategy][threads]") {
  const int n = GENERATE(1, 2);
  auto strategy = std::make_unique<Replicas>(n);
  std::atomic<bool> begun = false, destroyed = false, destroyed_meanwhile = false;
  std::thread other([&, running = strategy.get()] {
    running->run([&](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
      begun = true;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      while (!destroyed && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (destroyed) destroyed_meanwhile = true;
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
    });
  });
  while (!begun) std::this_thread::yield();
  strategy.reset();
  destroyed = true;
  other.join();
  REQUIRE(!destroyed_meanwhile);
}

namespace {

/// Calls a function where its thread ends.
struct AtThreadEnd {
  std::function<void()> call;
  ~AtThreadEnd() {
    if (call) call();
  }
};

}  // namespace

TEST_CASE("P40 thread_local objects of a replica's thread may read variables, but not run",
          "[strategy][threads]") {
  auto strategy = std::make_unique<Replicas>(2);
  const auto variable = strategy->make_variable(Tensor::scalar(5.0f));
  float read = 0;
  std::string refused;
  strategy->run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0) return;
    static thread_local AtThreadEnd at_end;
    at_end.call = [&, running = strategy.get()] {
      read = variable.value().item<float>();
      try {
        running->run([] {});
      } catch (const ContextError& error) {
        refused = error.what();
      }
    };
  });
  strategy.reset();
  REQUIRE(read == 5);
  REQUIRE_THAT(refused, Catch::Matchers::ContainsSubstring("run: the strategy is being destroyed") &&
                            Catch::Matchers::ContainsSubstring("end the threads that do"));
}

TEST_CASE("P40 values outlive their strategy", "[strategy][threads]") {
  std::optional<PerReplica<Tensor>> value;
  std::optional<Mirrored<Tensor>> mirrored;
  std::optional<Variable> variable;
  {
    Replicas strategy(2);
    value = strategy.run([](ReplicaContext& ctx) { return Tensor::scalar(ctx.replica_id_in_sync_group()); });
    mirrored = strategy.extended().broadcast_to(Tensor::scalar(5.0f));
    const auto scope = strategy.scope();
    variable.emplace(Tensor::scalar(1.0f));
  }
  REQUIRE(items<int>(*value) == std::vector<int>{0, 1});
  REQUIRE(items<float>(*mirrored) == std::vector<float>{5, 5});
  Replicas other(2);
  REQUIRE(other.reduce(ReduceOp::sum, *value).item<int>() == 1);
  value.reset();
  mirrored.reset();
  variable.reset();
}

TEST_CASE("P40 a strategy is neither copied nor moved, and made in place by a factory",
          "[strategy][threads]") {
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<MirroredStrategy>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<MirroredStrategy>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<ReplicaContext>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<ReplicaContext>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<StrategyScope>);
  const auto make = [](int n) { return MirroredStrategy(TestBackend::devices(n)); };
  MirroredStrategy strategy = make(2);
  REQUIRE(&strategy.run([](ReplicaContext& ctx) { return &ctx.strategy(); })[1]->extended() ==
          &strategy.extended());
}

TEST_CASE("replicas are in the order of the devices", "[strategy][threads]") {
  std::vector<Device> devices = TestBackend::devices(3);
  std::swap(devices[0], devices[2]);
  MirroredStrategy strategy(devices);
  REQUIRE(strategy.num_replicas_in_sync() == 3);
  REQUIRE(strategy.name() == "MirroredStrategy");
  REQUIRE(strategy.extended().worker_devices() == devices);
  REQUIRE(strategy.extended().parameter_devices() == devices);
  const auto seen = strategy.run([](ReplicaContext& ctx) { return ctx.device(); });
  REQUIRE((seen[0] == devices[0] && seen[2] == devices[2]));
}

TEST_CASE("P36 a device listed twice is refused, also under another name", "[strategy][threads]") {
  TestBackend::devices(2);
  const std::string twice = TestBackend::device().to_string();
  const std::string spelt_out = TestBackend::device().canonical_name();
  REQUIRE_THROWS_MATCHES(MirroredStrategy({twice, twice}), InvalidArgument,
                         says("MirroredStrategy", twice, "listed twice", "replicas 0 and 1"));
  REQUIRE_THROWS_MATCHES(MirroredStrategy({twice, TestBackend::device(1), spelt_out}), InvalidArgument,
                         says("listed twice", "replicas 0 and 2"));
}

TEST_CASE("devices that are not there, or not here, are refused", "[strategy][threads]") {
  REQUIRE_THROWS_MATCHES(MirroredStrategy({"/job:worker/task:1/device:CPU:0"}), ContextError,
                         says("MirroredStrategy", "/job:worker", "belongs to another task"));
  REQUIRE_THROWS_MATCHES(MirroredStrategy({"nowhere:0"}), InvalidArgument, says("nowhere:0"));
  REQUIRE_THROWS_MATCHES(OneDeviceStrategy("GPU:999"), NotFound, says("OneDeviceStrategy: ", "GPU:999"));
  REQUIRE_THROWS_MATCHES(OneDeviceStrategy("/task:3/cpu:0"), ContextError,
                         says("OneDeviceStrategy", "belongs to another task"));
}

TEST_CASE("no devices, or an empty list, means those there are", "[strategy][threads]") {
  auto devices = DeviceManager::instance().devices(DeviceKind::gpu);
  if (devices.empty()) devices = DeviceManager::instance().devices(DeviceKind::cpu);
  MirroredStrategy standard;
  REQUIRE(standard.extended().worker_devices() == devices);
  MirroredStrategy empty(std::vector<Device>{});
  REQUIRE(empty.extended().worker_devices() == devices);
}

TEST_CASE("OneDevice has one replica on its device", "[strategy][threads]") {
  OneDeviceStrategy one(TestBackend::device(1));
  REQUIRE(one.num_replicas_in_sync() == 1);
  REQUIRE(one.name() == "OneDeviceStrategy");
  REQUIRE(one.extended().worker_devices() == std::vector{TestBackend::device(1)});
  REQUIRE(one.extended().parameter_devices() == std::vector{TestBackend::device(1)});
  REQUIRE(one.run([](ReplicaContext& ctx) { return Tensor::scalar(1).device() == ctx.device(); }));
  REQUIRE(get_strategy().name() == "the default strategy");
}

}  // namespace lockstep::test

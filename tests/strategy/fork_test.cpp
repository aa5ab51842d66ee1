// Strategies in a fork of the process that used them.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/lockstep.hpp>

#include "strategy/variable/locked_components.hpp"
#include "strategy/variable/variable_state.hpp"
#include "support/busy_thread.hpp"
#include "support/child_process.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::BusyThread;
using test::host_devices;
using test::in_child;

namespace {

/// 3: f throws a ContextError that says what happened and what to do.
template <class F>
int refusal(const F& f, const std::string& what, const std::string& advice) {
  try {
    f();
  } catch (const ContextError& error) {
    const std::string message = error.what();
    return message.find(what) != std::string::npos && message.find("fork") != std::string::npos &&
                   message.find(advice) != std::string::npos
               ? 3
               : 4;
  }
  return 5;
}

template <class F>
int refusal(const F& f, const std::string& what) {
  return refusal(f, what + ": this process is a fork", "Make the strategy after the fork");
}

/// What a fork can do whatever other threads were about to do: 3.
int own_work() {
  Variable own(Tensor::ones({2}));
  own.assign_add(1.0f);
  OneDeviceStrategy strategy(Device("CPU:1"));
  auto variable = strategy.make_variable(Tensor::scalar(1.0f));
  strategy.run([&] { variable.assign(own.value().to_vector<float>()[0]); });
  return static_cast<int>(variable.value().item<float>()) + 1;
}

}  // namespace

TEST_CASE("a strategy that has run cannot be used in a fork, but destroyed", "[strategy][host]") {
  std::optional<MirroredStrategy> strategy(std::in_place, host_devices(GENERATE(2, 3)));
  auto variable = strategy->make_variable(Tensor::scalar(5.0f));
  const auto ones = strategy->run([] { return Tensor::scalar(1.0f); });
  CHECK(in_child([&] { return refusal([&] { strategy->run([] {}); }, "run"); }) == 3);
  CHECK(in_child([&] {
          return refusal([&] { static_cast<void>(strategy->reduce(ReduceOp::sum, ones)); }, "reduce");
        }) == 3);
  CHECK(in_child([&] { return refusal([&] { static_cast<void>(strategy->gather(ones, 0)); }, "gather"); }) ==
        3);
  CHECK(in_child([&] {
          return refusal([&] { static_cast<void>(strategy->extended().broadcast_to(ones[0])); },
                         "broadcast_to");
        }) == 3);
  CHECK(in_child([&] { return refusal([&] { variable.assign(1.0f); }, "assign"); }) == 3);
  CHECK(in_child([&] {
          return refusal([&] { strategy->extended().update(variable, [](Tensor&) {}); }, "update");
        }) == 3);
  CHECK(in_child([&] { return static_cast<int>(variable.value().item<float>()); }) == 5);
  CHECK(in_child([&] {
          strategy.reset();
          return 3;
        }) == 3);
  REQUIRE(strategy->reduce(ReduceOp::sum, ones).item<float>() == static_cast<float>(ones.size()));
}

TEST_CASE("a strategy that is destroyed in a fork is destroyed for its variables and scopes",
          "[strategy][host]") {
  std::optional<MirroredStrategy> strategy(std::in_place, host_devices(2));
  auto variable = strategy->make_variable(Tensor::zeros({2}), {.name = "w"});
  strategy->run([] {});
  const auto after = [&](const auto& f) {
    return in_child([&] {
      strategy.reset();
      try {
        f();
      } catch (const ContextError& error) {
        const std::string message = error.what();
        return message.find("Variable 'w': the strategy that it was made by has been destroyed") == 0 ? 3 : 4;
      }
      return 5;
    });
  };
  const IndexedSlices rows{Tensor::ones({1}), Tensor::zeros({1}, DType::i64), {2}};
  CHECK(after([&] { variable.value(); }) == 3);
  CHECK(after([&] { variable.assign(1.0f); }) == 3);
  CHECK(after([&] { variable.scatter_add(rows); }) == 3);
  CHECK(after([&] { static_cast<void>(variable.strategy().name()); }) == 3);
  CHECK(after([&] { optim::SGD({.learning_rate = 1}).build({variable}); }) == 3);
  CHECK(in_child([&] {
          const StrategyScope scope(*strategy);
          strategy.reset();
          try {
            static_cast<void>(get_strategy());
          } catch (const ContextError& error) {
            return std::string(error.what()).find("has been destroyed") != std::string::npos ? 3 : 4;
          }
          return 5;
        }) == 3);
}

TEST_CASE("a strategy that has not run yet can be used in a fork", "[strategy][host]") {
  std::optional<MirroredStrategy> strategy(std::in_place, host_devices(2));
  const auto sum = [&] {
    const auto sums = strategy->run([](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, 2.0f); });
    return static_cast<int>(sums[0].item<float>());
  };
  CHECK(in_child([&] {
          const int result = sum();
          strategy.reset();
          return result;
        }) == 4);
  REQUIRE(sum() == 4);
}

TEST_CASE("a fork that a replica function makes has none of the others", "[strategy][host]") {
  MirroredStrategy strategy(host_devices(3));
  const int who = GENERATE(0, 1);
  std::atomic<int> collective = 0, merge = 0;
  strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() != who) return;
    collective = in_child([&] {
      return refusal([&] { static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f)); },
                     "all_reduce(sum): this process is a fork", "End it by _exit or exec");
    });
    merge = in_child([&] {
      return refusal([&] { ctx.merge_call([](Strategy&) {}); }, "this process is a fork",
                     "End it by _exit or exec");
    });
  });
  CHECK(collective == 3);
  CHECK(merge == 3);
}

TEST_CASE("the end of a replica function in a fork that it has made is refused", "[strategy][host]") {
  MirroredStrategy strategy(host_devices(2));
  strategy.run([] {});
  int status = -1;
  int result = 0;
  try {
    strategy.run([&](ReplicaContext& ctx) {
      if (ctx.replica_id_in_sync_group() != 0) return;
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(30);
        status = 0;
        return;
      }
      ::waitpid(child, &status, 0);
    });
  } catch (const ContextError&) {
    result = refusal([] { throw; }, "run: replica 0's function has forked", "_exit or exec");
  }
  if (status == 0 && result != 0) ::_exit(result);  // the child
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 3);
}

TEST_CASE("a fork does not wait for what another thread was about to do with a strategy",
          "[strategy][host]") {
  auto strategy = std::make_unique<OneDeviceStrategy>(Device("CPU:0"));
  std::atomic<bool> begun = false, ends = false;
  std::thread other([&] {
    strategy->run([&] {
      begun = true;
      while (!ends) std::this_thread::yield();
    });
  });
  while (!begun) std::this_thread::yield();
  CHECK(in_child([&] { return refusal([&] { strategy->run([] {}); }, "run"); }) == 3);
  CHECK(in_child([&] {
          strategy.reset();
          return 3;
        }) == 3);
  ends = true;
  other.join();
  strategy->run([] {});
}

TEST_CASE("a fork refuses the variable that another thread was writing, and lets it go", "[strategy][host]") {
  std::optional<Variable> variable(std::in_place, Tensor::zeros({2}));
  Variable other(Tensor::ones({2}));
  const BusyThread writer([&](BusyThread& thread) {
    const std::lock_guard lock(detail::VariableAccess::state(*variable)->component(0).mutex());
    thread.wait();
  });
  const auto refused = [&](const auto& f) {
    return in_child([&] {
      return refusal(f, "The use of a variable: this process is a fork", "Fork before other threads use");
    });
  };
  CHECK(refused([&] { variable->value(); }) == 3);
  CHECK(refused([&] { variable->assign(1.0f); }) == 3);
  CHECK(in_child([&] {
          const std::vector<detail::ComponentRef> both{{&*detail::VariableAccess::state(other), 0},
                                                       {&*detail::VariableAccess::state(*variable), 0}};
          try {
            const detail::LockedComponents locked(both);
          } catch (const ContextError&) {
            other.assign(3.0f);  // is not locked
          }
          return static_cast<int>(other.value().to_vector<float>()[1]);
        }) == 3);
  CHECK(in_child([&] {
          variable.reset();
          return own_work();
        }) == 3);
}

TEST_CASE("a fork works beside what another thread's functions were doing", "[strategy][host]") {
  MirroredStrategy strategy(host_devices(1));
  auto variable = strategy.make_variable(Tensor::scalar(5.0f));
  const auto check = [&] {
    CHECK(in_child([&] { return own_work(); }) == 3);
    CHECK(in_child([&] { return static_cast<int>(variable.value().item<float>()); }) == 5);
  };
  SECTION("an update, which is a call") {
    const BusyThread thread(
        [&](BusyThread& busy) { strategy.extended().update(variable, [&](Tensor&) { busy.wait(); }); });
    check();
    CHECK(in_child([&] { return refusal([&] { variable.assign(1.0f); }, "assign"); }) == 3);
    CHECK(in_child([&] { return refusal([&] { strategy.run([] {}); }, "run"); }) == 3);
  }
  SECTION("an initial value, during which there may be other calls") {
    const BusyThread thread([&](BusyThread& busy) {
      static_cast<void>(strategy.make_variable([&] {
        busy.wait();
        return Tensor::scalar(1.0f);
      }));
    });
    check();
    CHECK(in_child([&] {
            strategy.run([] {});
            variable.assign(3.0f);
            return static_cast<int>(variable.value().item<float>());
          }) == 3);
  }
  SECTION("a pass of a dataset, which has others") {
    std::atomic<BusyThread*> reader = nullptr;
    const auto dataset = Dataset::range(3).shuffle(3).map([&](const Tensor& element) {
      if (reader != nullptr) reader.load()->wait();
      return element;
    });
    const auto count = [&] {
      int n = 0;
      for (const Tensor& element : dataset) n += element.size() == 1 ? 1 : 0;
      return n;
    };
    const BusyThread thread([&](BusyThread& busy) {
      reader = &busy;
      count();
    });
    check();
    CHECK(in_child([&] {
            reader = nullptr;
            return count();
          }) == 3);
  }
}

TEST_CASE("a fork finds the process's memory and streams as it needs them", "[strategy][host]") {
  REQUIRE(own_work() == 3);
  const BusyThread thread([](BusyThread& busy) {
    backend::DeviceBackend& device = DeviceManager::instance().open("CPU:0");
    const backend::StreamHandle stream = default_stream(device).handle();
    while (!busy.ends()) {
      for (int i = 0; i < 50; ++i) {
        device.destroy_stream(device.create_stream());
        device.deallocate(device.allocate(8, stream), 8, stream);
      }
    }
  });
  for (int i = 0; i < 60; ++i) CHECK(in_child([] { return own_work(); }) == 3);
}

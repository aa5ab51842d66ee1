#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Variables that several threads use, and functions of the caller's that wait for other threads. A hang here
/// ends in CTest's time limit.
namespace lockstep::test {

namespace {

constexpr auto kOnRead = VariableSynchronization::on_read;

/// What `fn` gives on a thread of its own.
template <class F>
auto elsewhere(const F& fn) {
  return std::async(std::launch::async, fn).get();
}

float value_elsewhere(const Variable& variable) {
  return elsewhere([&] { return variable.value().item<float>(); });
}

Variable on_read_sum(Strategy& strategy, const Tensor& initial) {
  return strategy.make_variable(
      initial, {.name = "v", .synchronization = kOnRead, .aggregation = VariableAggregation::sum});
}

}  // namespace

TEST_CASE("functions of datasets read variables, wherever the next element is asked for",
          "[strategy][threads]") {
  Replicas strategy(2);
  const auto scale = strategy.make_variable(Tensor::scalar(2.0f), {.name = "scale"});
  const auto data =
      Dataset::range(64)
          .map([scale](const Tensor& x) { return x.cast(DType::f32) * scale.value().to(x.device()); })
          .batch(2);
  const auto distributed = strategy.distribute_dataset(data);
  auto it = distributed.iterator();
  float first = -1;
  const auto take = [&] { first = it.next()[0].to_vector<float>()[0]; };

  SECTION("by run_steps_on_iterator") {
    int steps = 0;
    strategy.extended().run_steps_on_iterator(
        [&](MultiStepContext&, const PerReplica<Tensor>& x) {
          strategy.run([](const Tensor&) {}, x);
          ++steps;
        },
        it, 3);
    REQUIRE(steps == 3);
    take();
    REQUIRE(first == 12.0f);
  }
  SECTION("by a function of run_steps_on_iterator") {
    auto other = distributed.iterator();
    strategy.extended().run_steps_on_iterator([&](MultiStepContext&, const PerReplica<Tensor>&) { take(); },
                                              other, 1);
    REQUIRE(first == 0.0f);
  }
  SECTION("by a value function") {
    const auto values = strategy.distribute_values_from_function(
        [&](ValueContext context) { return Tensor(it.next()[context.replica_id_in_sync_group()]); });
    REQUIRE(values[1].to_vector<float>()[0] == 6.0f);
  }
  SECTION("by a function that makes datasets") {
    static_cast<void>(strategy.distribute_datasets_from_function([&](InputContext) {
      take();
      return data;
    }));
    REQUIRE(first == 0.0f);
  }
  SECTION("by an initial value") {
    const auto variable = strategy.make_variable([&] { return Tensor(it.next()[0]); });
    REQUIRE(variable.value().to_vector<float>()[0] == 0.0f);
  }
  SECTION("by a merge function") {
    strategy.run([&](ReplicaContext& ctx) { ctx.merge_call([&](Strategy&) { take(); }); });
    REQUIRE(first == 0.0f);
  }
  SECTION("by a function given to update of that variable") {
    strategy.extended().update(scale, [&](Tensor& local) {
      local.fill_(100.0f);
      if (get_update_replica_id() == 1) take();  // the elements made meanwhile have seen the old value
    });
    REQUIRE(first == 0.0f);
    it.next();
    REQUIRE(scale.value().item<float>() == 100.0f);
  }
}

TEST_CASE("run_steps_on_iterator in a replica function takes no element", "[strategy][threads]") {
  Replicas strategy(1);
  auto it = strategy.distribute_dataset(Dataset::range(4).batch(1)).iterator();
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    strategy.extended().run_steps_on_iterator([](MultiStepContext&, const PerReplica<Tensor>&) {}, it);
  }),
                         ContextError, says("run_steps_on_iterator", "inside replica 0's function"));
  REQUIRE(it.next()[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0});
}

TEST_CASE("a read on another thread does not wait for a run", "[strategy][threads]") {
  const int n = GENERATE(1, 2, 3);
  Replicas strategy(n);
  auto mirrored = strategy.make_variable(Tensor::scalar(5.0f), {.aggregation = VariableAggregation::mean});
  auto sum = on_read_sum(strategy, Tensor::scalar(2.0f));
  std::vector<float> seen;
  std::size_t num_local_results = 0;
  strategy.run([&](ReplicaContext& ctx) {
    mirrored.assign(Tensor::scalar(7.0f));
    sum.assign_add(Tensor::scalar(1.0f));
    ctx.merge_call([&](Strategy&) {
      seen = {value_elsewhere(mirrored), value_elsewhere(sum)};
      num_local_results = elsewhere([&] { return strategy.local_results(sum).size(); });
    });
    if (ctx.replica_id_in_sync_group() == 0) seen.push_back(value_elsewhere(mirrored));
  });
  REQUIRE(seen == std::vector<float>{7.0f, 3.0f * static_cast<float>(n), 7.0f});
  REQUIRE(num_local_results == static_cast<std::size_t>(n));
}

TEST_CASE("reading another strategy's variable is refused without waiting for it", "[strategy][threads]") {
  Replicas mine(1), other(1);
  const auto variable = other.make_variable(Tensor::scalar(1.0f), {.name = "theirs"});
  other.run([&] {
    const bool refused = elsewhere([&] {
      try {
        mine.run([&] { variable.value(); });
      } catch (const ContextError&) {
        return true;
      }
      return false;
    });
    if (!refused) throw std::logic_error("the read was not refused");
  });
}

TEST_CASE("snapshots in a replica function stay, whatever the other replicas write", "[strategy][threads]") {
  const int kWrites = kSlowBuild ? 300 : 3000;
  Replicas strategy(2);
  auto variable = on_read_sum(strategy, Tensor::zeros({64}));
  std::atomic<bool> done{false};
  int torn = 0, changed = 0;
  strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0) {
      for (int i = 0; i < kWrites; ++i) {
        const Tensor held = variable.value();
        variable.assign(static_cast<float>(i));
      }
      done = true;
      return;
    }
    while (!done) {
      const Tensor theirs = strategy.local_results(variable)[0];
      const auto first = theirs.to_vector<float>(), again = theirs.to_vector<float>();
      changed += first != again;
      torn += first != std::vector<float>(64, first[0]);
      torn += ReduceValue(variable).num_components() != 2;
    }
  });
  REQUIRE((torn == 0 && changed == 0));
}

TEST_CASE("components of one variable are seen together, and found, while another thread writes",
          "[strategy][threads]") {
  const int kWrites = kSlowBuild ? 200 : 2000;
  Replicas strategy(2);
  auto variable = strategy.make_variable(Tensor::scalar(0.0f));
  std::atomic<bool> done{false};
  int apart = 0, lost = 0;
  std::thread reader([&] {
    while (!done) {
      const auto parts = strategy.local_results(variable);
      apart += parts[0].item<float>() != parts[1].item<float>();
      const auto owner = strategy.extended().value_container(parts[1]);
      lost += std::holds_alternative<Variable>(owner) && !(std::get<Variable>(owner) == variable);
    }
  });
  for (int i = 0; i < kWrites; ++i) {
    variable.assign_add(1.0f);
    if (i % 3 == 0) strategy.extended().update(variable, [](Tensor& local) { local.add_(1.0f); });
  }
  done = true;
  reader.join();
  REQUIRE((apart == 0 && lost == 0));
}

TEST_CASE("a sum or mean read outside has the bits of the one that replicas read", "[strategy][variable]") {
  const int n = GENERATE(1, 2, 3, 5);
  const auto dtype = GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::u8);
  const auto aggregation = GENERATE(VariableAggregation::sum, VariableAggregation::mean);
  if (aggregation == VariableAggregation::mean && !is_floating(dtype)) return;  // there are no such variables
  CAPTURE(n, name(dtype), name(aggregation));
  Replicas strategy(n);
  auto variable = strategy.make_variable(Tensor::zeros({1031}, dtype),
                                         {.synchronization = kOnRead, .aggregation = aggregation});
  const auto inside = strategy.run([&](ReplicaContext& ctx) {
    std::mt19937 random(static_cast<unsigned>(ctx.replica_id_in_sync_group()));
    std::vector<float> values(1031);
    for (float& value : values)
      value = std::uniform_real_distribution<float>(is_floating(dtype) ? -100.0f : 0.0f, 100.0f)(random);
    variable.assign(Tensor::from(values, {1031}).cast(dtype));
    const sync_on_read guard;
    return variable.value();
  });
  const Tensor outside = variable.value();
  REQUIRE(outside.dtype() == inside[0].dtype());
  const auto bytes = [](const Tensor& tensor) {
    const Tensor here = tensor.to(Device(DeviceKind::cpu, 0)).contiguous();
    std::vector<unsigned char> result(static_cast<std::size_t>(here.nbytes()));
    std::memcpy(result.data(), here.view().data, result.size());
    return result;
  };
  REQUIRE(bytes(outside) == bytes(inside[0]));
}

TEST_CASE("update changes all components or none, and others see the old ones until its end",
          "[strategy][update]") {
  Replicas strategy(2);
  const auto variable = strategy.make_variable(Tensor::scalar(5.0f), {.name = "w"});
  const auto components = [&] { return items<float>(strategy.local_results(variable)); };
  std::vector<float> seen;
  strategy.extended().update(variable, [&](Tensor& local) {
    local.fill_(7.0f);
    seen.push_back(value_elsewhere(variable));
    seen.push_back(variable.value().item<float>());
    for (const float inner : items<float>(strategy.run([&] { return variable.value(); })))
      seen.push_back(inner);
  });
  REQUIRE(seen == std::vector<float>{5, 7, 5, 5, 5, 7, 5, 5});
  REQUIRE(components() == std::vector<float>{7, 7});
  // An update within the update is part of it.
  strategy.extended().update(variable, [&](Tensor& local) {
    if (get_update_replica_id() == 0)
      strategy.extended().update(variable, [](Tensor& inner) { inner.add_(1.0f); });
    local.add_(10.0f);
  });
  REQUIRE(components() == std::vector<float>{18, 18});
}

TEST_CASE("the default strategy keeps no thread from another", "[strategy][threads]") {
  Strategy& plain = get_strategy();
  Variable variable(Tensor::scalar(5.0f));
  SECTION("a run of another strategy in its run") {
    Replicas strategy(2);
    const auto values = plain.run([&] { return strategy.run([&] { return variable.value(); }); });
    REQUIRE(items<float>(values[0]) == std::vector<float>{5, 5});
  }
  SECTION("functions of two threads that wait for each other") {
    std::promise<int> promise;
    auto waiting = std::async(std::launch::async, [&] {
      return int(get_strategy().run([&] { return promise.get_future().get(); }));
    });
    plain.run([&] { promise.set_value(3); });
    REQUIRE(waiting.get() == 3);
  }
  SECTION("a write within its run") {
    plain.run([&] { elsewhere([&] { variable.assign(6.0f); }); });
    REQUIRE(variable.value().item<float>() == 6.0f);
  }
  SECTION("writes of several threads are all made") {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) variable.assign_add(1.0f);
      });
    for (std::thread& thread : threads) thread.join();
    REQUIRE(variable.value().item<float>() == 405.0f);
  }
  SECTION("failures of its runs are each thread's own") {
    REQUIRE_THROWS_AS(plain.run([] { throw std::runtime_error("here"); }), std::runtime_error);
    REQUIRE(elsewhere([&] { return plain.last_failures().size(); }) == 0);
    elsewhere([&] { plain.run([] {}); });
    const auto failures = plain.last_failures();
    REQUIRE(failures.size() == 1);
    REQUIRE((failures[0].replica == 0 && failures[0].message == "here"));
    plain.run([] {});
    REQUIRE(plain.last_failures().empty());
  }
}

}  // namespace lockstep::test

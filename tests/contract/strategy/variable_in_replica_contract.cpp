#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Writes to on_write variables in replica functions.
namespace lockstep::test {

using Aggregation = VariableAggregation;

namespace {

constexpr Aggregation kAggregations[] = {Aggregation::none, Aggregation::sum, Aggregation::mean,
                                         Aggregation::only_first_replica};

Tensor id_tensor(const ReplicaContext& ctx) {
  return Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group()));
}

/// A variable in a strategy's scope; what `write` leaves in its components, and returns as seen by the
/// replicas.
struct Written {
  std::vector<float> components;
  std::vector<float> returned;

  friend bool operator==(const Written&, const Written&) = default;
};

template <class Write>
Written write_in_replicas(int n, float initial, Aggregation aggregation, Write write) {
  Replicas strategy(n);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(initial), {.name = "v", .aggregation = aggregation});
  const auto returned = strategy.run([&](ReplicaContext& ctx) {
    const Variable& same = write(variable, ctx);
    return same == variable ? same.value().item<float>() : -1.0f;
  });
  return {items<float>(strategy.local_results(variable)), strategy.local_results(returned)};
}

Written both(float value) { return {{value, value}, {value, value}}; }

const auto assign_id = [](Variable& v, ReplicaContext& ctx) -> Variable& { return v.assign(id_tensor(ctx)); };
const auto add_id = [](Variable& v, ReplicaContext& ctx) -> Variable& {
  return v.assign_add(id_tensor(ctx));
};
const auto sub_id = [](Variable& v, ReplicaContext& ctx) -> Variable& {
  return v.assign_sub(id_tensor(ctx));
};

}  // namespace

TEST_CASE("mirrored-none-in-replica: refused, naming the variable and the setting", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f), {.name = "w"});
  const auto refused = [](const char* what) {
    return says(what, "'w'", "in replica", "its aggregation is none");
  };
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign(5.0f); }), InvalidArgument, refused("assign"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign_add(Tensor::scalar(5.0f)); }), InvalidArgument,
                         refused("assign_add"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign_sub(5.0f); }), InvalidArgument,
                         refused("assign_sub"));
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{1, 1});
}

TEST_CASE("aggregation none: one replica is refused as several, OneDevice's writes as outside replicas",
          "[strategy][variable]") {
  Replicas single(1);
  Variable refused = single.make_variable(Tensor::scalar(1.0f), {.name = "w"});
  REQUIRE_THROWS_MATCHES(single.run([&] { refused.assign(5.0f); }), InvalidArgument,
                         says("'w'", "its aggregation is none"));
  OneDeviceStrategy one(TestBackend::device());
  Variable variable = one.make_variable(Tensor::ones({2}));
  const IndexedSlices row{Tensor::ones({1}), Tensor::from<std::int64_t>({1}, {1}), {2}};
  one.run([&] {
    variable.assign_add(3.0f);
    variable.assign_sub(Tensor::ones({2}));
    variable.scatter_add(row);
  });
  REQUIRE(variable.value().to_vector<float>() == std::vector<float>{3, 4});
}

TEST_CASE("P12 an assignment without aggregation in a replica leaves both copies", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f), {.name = "w"});
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) { variable.assign(id_tensor(ctx)); }),
                         InvalidArgument, says("'w'", "none"));
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{1, 1});
}

TEST_CASE("mirrored-mean-ids: tensors are averaged", "[strategy][variable]") {
  TestBackend::devices(2);
  REQUIRE(write_in_replicas(2, 1.0f, Aggregation::mean, assign_id) == both(0.5f));
  REQUIRE(write_in_replicas(2, 1.0f, Aggregation::mean, add_id) == both(1.5f));
  REQUIRE(write_in_replicas(2, 5.0f, Aggregation::mean, sub_id) == both(4.5f));
}

TEST_CASE("mirrored-mean-same-value: a host scalar is its own mean", "[strategy][variable]") {
  TestBackend::devices(2);
  const auto assign = [](Variable& v, ReplicaContext&) -> Variable& { return v.assign(5.0f); };
  const auto add = [](Variable& v, ReplicaContext&) -> Variable& { return v.assign_add(5.0f); };
  const auto sub = [](Variable& v, ReplicaContext&) -> Variable& { return v.assign_sub(1.0f); };
  REQUIRE(write_in_replicas(2, 1.0f, Aggregation::mean, assign) == both(5.0f));
  REQUIRE(write_in_replicas(2, 1.0f, Aggregation::mean, add) == both(6.0f));
  REQUIRE(write_in_replicas(2, 5.0f, Aggregation::mean, sub) == both(4.0f));
}

TEST_CASE("mirrored-sum-same-value: the sum of one object is refused", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f), {.name = "w", .aggregation = Aggregation::sum});
  REQUIRE_THROWS_MATCHES(
      strategy.run([&] { variable.assign(5.0f); }), InvalidArgument,
      says("assign of the variable 'w'", "aggregation sum", "the same host scalar", "2 replicas"));
  const Tensor captured = Tensor::scalar(5.0f);
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign_add(captured); }), InvalidArgument,
                         says("assign_add of the variable 'w'", "every replica gave the same object"));
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{1, 1});
  strategy.run([&] { variable.assign(0); });  // but nothing added up is nothing
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{0, 0});
  strategy.run([&] { variable.assign_add(0.0); });
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{0, 0});
}

TEST_CASE("the sum of tensors is applied once to every component", "[strategy][variable]") {
  TestBackend::devices(2);
  REQUIRE(write_in_replicas(2, 1.0f, Aggregation::sum, assign_id) == both(1.0f));
  REQUIRE(write_in_replicas(2, 1.0f, Aggregation::sum, add_id) == both(2.0f));
  REQUIRE(write_in_replicas(2, 1.0f, Aggregation::sum, sub_id) == both(0.0f));
}

TEST_CASE("only-first-assign-id: replica 0's value, tensor or host scalar", "[strategy][variable]") {
  TestBackend::devices(2);
  REQUIRE(write_in_replicas(2, 15.0f, Aggregation::only_first_replica, assign_id) == both(0.0f));
  const auto host = [](Variable& v, ReplicaContext& ctx) -> Variable& {
    return v.assign(ctx.replica_id_in_sync_group() + 3);
  };
  REQUIRE(write_in_replicas(2, 15.0f, Aggregation::only_first_replica, host) == both(3.0f));
  const auto add = [](Variable& v, ReplicaContext&) -> Variable& { return v.assign_add(1); };
  REQUIRE(write_in_replicas(2, 15.0f, Aggregation::only_first_replica, add) == both(16.0f));
}

TEST_CASE("P08 P09 four replicas add up, average, or take the first", "[strategy][variable]") {
  TestBackend::devices(4);
  const auto add_one = [](Variable& v, ReplicaContext&) -> Variable& {
    return v.assign_add(Tensor::scalar(1.0f));
  };
  REQUIRE(write_in_replicas(4, 0.0f, Aggregation::mean, add_one).components == std::vector<float>(4, 1.0f));
  REQUIRE(write_in_replicas(4, 0.0f, Aggregation::sum, add_one).components == std::vector<float>(4, 4.0f));
  REQUIRE(write_in_replicas(4, 0.0f, Aggregation::only_first_replica, add_one).components ==
          std::vector<float>(4, 1.0f));
}

TEST_CASE("P13 a counter with first-replica aggregation counts once", "[strategy][variable]") {
  Replicas strategy(4);
  const auto scope = strategy.scope();
  Variable counter(Tensor::scalar(std::int64_t{0}),
                   {.trainable = false, .aggregation = Aggregation::only_first_replica});
  strategy.run([&] { counter.assign_add(1); });
  REQUIRE(counter.value().item<std::int64_t>() == 1);
}

TEST_CASE("a host scalar is the same number however the replicas write it", "[strategy][variable]") {
  Replicas strategy(2);
  Variable variable = strategy.make_variable(Tensor::scalar(0.0f), {.aggregation = Aggregation::mean});
  const auto write = [&](const Scalar& on_0, const Scalar& on_1) {
    strategy.run(
        [&](ReplicaContext& ctx) { variable.assign(ctx.replica_id_in_sync_group() == 0 ? on_0 : on_1); });
    return variable.value().item<float>();
  };
  REQUIRE(write(1, 1.0) == 1.0f);
  REQUIRE(write(2u, 2) == 2.0f);
  REQUIRE(std::isnan(write(std::nan(""), std::nan(""))));
  REQUIRE_THROWS_MATCHES(write(1, 1.5), InvalidArgument, says("replica 1 gave another host scalar"));
}

TEST_CASE("a host scalar that does not fit is refused in a replica", "[strategy][variable]") {
  Replicas strategy(2);
  Variable variable = strategy.make_variable(Tensor::scalar(std::int32_t{1}),
                                             {.name = "n", .aggregation = Aggregation::only_first_replica});
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign_add(0.5); }), InvalidArgument,
                         says("assign_add of the variable 'n'", "the number 0.5 does not fit", "int32"));
  REQUIRE(items<int>(strategy.local_results(variable)) == std::vector<int>{1, 1});
}

TEST_CASE("P16 with one replica every aggregation but none is the value itself", "[strategy][variable]") {
  Replicas strategy(1);
  const auto scope = strategy.scope();
  for (const Aggregation aggregation : kAggregations) {
    CAPTURE(aggregation);
    Variable variable(Tensor::scalar(1.0f), {.aggregation = aggregation});
    if (aggregation == Aggregation::none) {
      REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign(5); }), InvalidArgument, says("none"));
      continue;
    }
    strategy.run([&] { variable.assign_add(5); });
    strategy.run([&] { variable.assign_add(Tensor::scalar(5.0f)); });
    REQUIRE(variable.value().item<float>() == 11.0f);
  }
}

TEST_CASE("host scalars that differ are refused, naming the replica", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  for (const Aggregation aggregation : {Aggregation::sum, Aggregation::mean}) {
    Variable variable(Tensor::scalar(1.0f), {.name = "w", .aggregation = aggregation});
    REQUIRE_THROWS_MATCHES(
        strategy.run([&](ReplicaContext& ctx) { variable.assign(ctx.replica_id_in_sync_group()); }),
        InvalidArgument, says("'w'", "replica 1 gave another host scalar", "Tensor::scalar"));
    REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{1, 1});
  }
}

TEST_CASE("a mirrored value takes part with its own component", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f), {.aggregation = Aggregation::sum});
  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(3.0f));
  strategy.run([&] { variable.assign(mirrored); });
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{6, 6});
  strategy.run([&](const Tensor& part) { variable.assign_add(part); }, mirrored);
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{12, 12});
}

TEST_CASE("a per-replica value, or one that does not fit, is refused in a replica", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f), {.name = "w", .aggregation = Aggregation::sum});
  const auto two = scalars<float>({1, 2});
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign(two); }), InvalidArgument,
                         says("'w'", "per-replica"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign(Tensor::zeros({2})); }), InvalidArgument,
                         says("'w'", "[2] float32", "[] float32"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { variable.assign(Tensor::scalar(1)); }), InvalidArgument,
                         says("int32", "float32"));
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{1, 1});
}

TEST_CASE("a write that one replica leaves out is reported", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f), {.aggregation = Aggregation::sum});
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0) variable.assign(Tensor::scalar(1.0f));
  }),
                         ContextError, says("assign", "replica 1", "has returned without it"));
}

TEST_CASE("writes in a merge function and in an update function follow their contexts",
          "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f)), other(Tensor::scalar(0.0f));
  strategy.run([&](ReplicaContext& ctx) { ctx.merge_call([&](Strategy&) { variable.assign_add(2.0f); }); });
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{3, 3});
  // In an update only that component, without aggregation.
  strategy.extended().update(variable, [&](Tensor& local) {
    other.assign(static_cast<float>(get_update_replica_id().value() + 1));
    other.assign_add(Tensor::scalar(10.0f));
    local.add_(other);
  });
  REQUIRE(items<float>(strategy.local_results(other)) == std::vector<float>{11, 12});
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{14, 15});
}

TEST_CASE("many writes in many replicas keep all components equal", "[strategy][variable]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  Variable total(Tensor::zeros({5}), {.aggregation = Aggregation::sum});
  Variable average(Tensor::zeros({5}), {.aggregation = Aggregation::mean});
  const int kSteps = kSlowBuild ? 20 : 200;
  strategy.run([&](ReplicaContext& ctx) {
    for (int step = 0; step < kSteps; ++step) {
      const Tensor mine = Tensor::full({5}, static_cast<float>(2 * ctx.replica_id_in_sync_group()));
      total.assign_add(mine);
      average.assign_add(mine);
    }
  });
  const float sum = static_cast<float>(n * (n - 1) * kSteps), mean = static_cast<float>((n - 1) * kSteps);
  for (const Tensor& part : strategy.local_results(total))
    REQUIRE(part.to_vector<float>() == std::vector<float>(5, sum));
  for (const Tensor& part : strategy.local_results(average))
    REQUIRE(part.to_vector<float>() == std::vector<float>(5, mean));
}

TEST_CASE("P09 one step of a linear model does not depend on the number of replicas",
          "[strategy][variable]") {
  const auto weight_after_step = [](int n) {
    Replicas strategy(n);
    const auto scope = strategy.scope();
    Variable w(Tensor::scalar(0.5f), {.aggregation = Aggregation::sum});
    // 12 rows y = 3 x, split over the replicas; the gradient of the squared error, divided by the global
    // batch.
    const auto rows = strategy.distribute_values_from_function([n](ValueContext ctx) {
      const int per_replica = (12 + n - 1) / n;
      std::vector<float> x;
      for (int row = per_replica * ctx.replica_id_in_sync_group(); row < 12; ++row)
        if (static_cast<int>(x.size()) < per_replica) x.push_back(static_cast<float>(row) * 0.25f);
      return Tensor::from(x, Shape(x.size()));
    });
    strategy.run(
        [&](ReplicaContext& ctx, const Tensor& part) {
          const Tensor x = part.to(ctx.device());
          const Tensor error = x * w.value() - x * 3.0f;
          w.assign_sub(sum(error * x * 2.0f) / 12.0f * 0.01f);
        },
        rows);
    return w.value().item<float>();
  };
  const float expected = weight_after_step(1);
  REQUIRE(expected != 0.5f);
  for (const int n : {2, 4, 5}) {
    if (n > TestBackend::num_devices()) continue;
    CAPTURE(n);
    // A tolerance, as the order of the additions differs.
    REQUIRE(std::abs(weight_after_step(n) - expected) < 1e-5f);
  }
}

TEST_CASE("P23 replicas that make different writes are told which", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable v(Tensor::scalar(1.0f), {.name = "v", .aggregation = Aggregation::sum});
  Variable w(Tensor::scalar(2.0f), {.name = "w", .aggregation = Aggregation::sum});
  const auto run = [&](const auto& first, const auto& second) {
    strategy.run([&](ReplicaContext& ctx) {
      if (ctx.replica_id_in_sync_group() == 0)
        first(id_tensor(ctx));
      else
        second(id_tensor(ctx));
    });
  };
  REQUIRE_THROWS_MATCHES(
      run([&](const Tensor& x) { v.assign(x); }, [&](const Tensor& x) { v.assign_add(x); }),
      CollectiveMismatch, says("assign_add, call 0: replica 1", "calls it where replica 0", "calls assign."));
  REQUIRE_THROWS_MATCHES(run([&](const Tensor& x) { v.assign(x); }, [&](const Tensor& x) { w.assign(x); }),
                         CollectiveMismatch, says("replica 1", "'w'", "replica 0", "'v'"));
  REQUIRE(items<float>(strategy.local_results(v)) == std::vector<float>{1, 1});
  REQUIRE(items<float>(strategy.local_results(w)) == std::vector<float>{2, 2});
  run([&](const Tensor& x) { w.assign(x); }, [&](const Tensor& x) { w.assign(x); });
  REQUIRE(items<float>(strategy.local_results(w)) == std::vector<float>{1, 1});
}

}  // namespace lockstep::test

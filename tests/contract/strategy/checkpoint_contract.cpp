#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/temporary_directory.hpp"

/// Checkpoints of strategies' variables.
namespace lockstep::test {

using enum VariableAggregation;
using VariableSynchronization::on_read;
using VariableSynchronization::on_write;

namespace {

template <Element T = float>
std::vector<T> components(const Variable& variable) {
  return items<T>(variable.strategy().local_results(variable));
}

/// A variable of the strategy, or of the default strategy where there is none.
Variable make(Strategy* strategy, const Tensor& initial, VariableOptions options = {}) {
  if (strategy == nullptr) return Variable(initial, std::move(options));
  const auto scope = strategy->scope();
  return Variable(initial, std::move(options));
}

/// An on_read variable whose component i is values[i].
template <Element T>
Variable on_read_variable(Strategy& strategy, VariableAggregation aggregation, std::vector<T> values) {
  Variable variable = make(&strategy, Tensor::scalar(T(0)),
                           {.name = "r", .synchronization = on_read, .aggregation = aggregation});
  strategy.run([&](ReplicaContext& ctx) {
    variable.assign(Tensor::scalar(values[static_cast<std::size_t>(ctx.replica_id_in_sync_group())]));
  });
  return variable;
}

}  // namespace

TEST_CASE("checkpoint-on-write: the value once, restored on every component and into plain variables",
          "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(2);
  Variable mirrored = make(&strategy, Tensor::scalar(2.0f));
  Variable plain = make(nullptr, Tensor::scalar(0.0f));
  Checkpoint of_mirrored({{"v", mirrored}}), of_plain({{"v", plain}});
  of_mirrored.save(path);
  mirrored.assign(0);
  of_mirrored.restore(path);
  REQUIRE(components(mirrored) == std::vector<float>{2, 2});
  of_plain.restore(path);
  REQUIRE(plain.value().item<float>() == 2.0f);
  plain.assign(3);
  of_plain.save(path);
  of_mirrored.restore(path);
  REQUIRE(components(mirrored) == std::vector<float>{3, 3});
}

TEST_CASE("P14 mirrored variables go from any number of replicas to any other", "[strategy][checkpoint]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const int m = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas from(n), to(m);
  OneDeviceStrategy one(TestBackend::device());
  const Tensor value = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Variable saved = make(&from, value);
  Checkpoint({{"v", saved}, {"step", make(&from, Tensor::scalar(std::int64_t{7}))}}).save(path);

  const auto check = [&](Strategy* strategy) {
    Variable restored = make(strategy, Tensor::zeros({2, 3}));
    Variable step = make(strategy, Tensor::scalar(std::int64_t{0}));
    Checkpoint({{"v", restored}, {"step", step}}).restore(path);
    for (const Tensor& part : restored.strategy().local_results(restored))
      REQUIRE(part.to_vector<float>() == value.to_vector<float>());
    REQUIRE(step.value().item<std::int64_t>() == 7);
  };
  check(&to);
  check(&one);
  check(nullptr);
  const auto bytes = read_bytes(path);
  Variable again = make(&to, value);
  Checkpoint({{"v", again}, {"step", make(nullptr, Tensor::scalar(std::int64_t{7}))}}).save(path);
  REQUIRE(read_bytes(path) == bytes);
}

TEST_CASE("component 0 is saved, whichever device is current", "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  Replicas strategy(2);
  Variable variable = make(&strategy, Tensor::scalar(0.0f));
  variable.assign(Mirrored(std::vector{Tensor::scalar(1.0f), Tensor::scalar(2.0f)}));
  const DeviceScope here(TestBackend::device(1));
  Checkpoint c({{"v", variable}});
  c.save(directory / "f");
  c.restore(directory / "f");
  REQUIRE(components(variable) == std::vector<float>{1, 1});
}

TEST_CASE("work in flight is in the checkpoint, and sees what was restored", "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  Replicas strategy(2);
  Variable variable = make(&strategy, Tensor::zeros({1 << 16}), {.aggregation = sum});
  const auto step = [&] {
    strategy.run([&](ReplicaContext&) { variable.assign_add(Tensor::ones({1 << 16})); });
  };
  Checkpoint c({{"v", variable}});
  step();
  c.save(directory / "f");
  step();
  step();
  c.restore(directory / "f");
  step();
  for (const Tensor& part : strategy.local_results(variable))
    REQUIRE(part.to_vector<float>() == std::vector<float>(1 << 16, 4.0f));
}

TEST_CASE("checkpoints are saved and restored in and out of scope, and in merge functions",
          "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(2);
  Variable mirrored = make(&strategy, Tensor::scalar(1.0f));
  Variable plain = make(nullptr, Tensor::scalar(2.0f));
  Checkpoint c({{"mirrored", mirrored}, {"plain", plain}});
  const auto round_trip = [&] {
    c.save(path);
    mirrored.assign(0);
    c.restore(path);
  };
  const auto check = [&] {
    REQUIRE(components(mirrored) == std::vector<float>{1, 1});
    REQUIRE(plain.value().item<float>() == 2.0f);
  };
  round_trip();
  check();
  {
    const auto scope = strategy.scope();
    round_trip();
    check();
  }
  strategy.run([&](ReplicaContext& ctx) { ctx.merge_call([&](Strategy&) { round_trip(); }); });
  check();
}

TEST_CASE("a checkpoint is saved while a run waits for it", "[strategy][checkpoint][threads]") {
  const int n = GENERATE(1, 2);
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(n);
  Variable mirrored = make(&strategy, Tensor::scalar(1.0f), {.aggregation = mean});
  Variable total = on_read_variable(strategy, sum, std::vector<float>(static_cast<std::size_t>(n), 3.0f));
  Variable plain = make(nullptr, Tensor::scalar(2.0f));
  Checkpoint c({{"mirrored", mirrored}, {"total", total}, {"plain", plain}});
  const auto save = [&] { std::thread([&] { c.save(path); }).join(); };
  SECTION("in a replica function") {
    strategy.run([&](ReplicaContext& ctx) {
      if (ctx.replica_id_in_sync_group() == 0) save();
    });
  }
  SECTION("in a merge function, after a write") {
    strategy.run([&](ReplicaContext& ctx) {
      mirrored.assign(Tensor::scalar(1.0f));
      ctx.merge_call([&](Strategy&) { save(); });
    });
  }
  SECTION("in an update of one of its variables, which others see at its end") {
    strategy.extended().update(mirrored, [&](Tensor& local) {
      local.fill_(9.0f);
      save();
    });
  }
  for (Variable* each : {&mirrored, &total, &plain}) each->assign(0);
  c.restore(path);
  REQUIRE(mirrored.value().item<float>() == 1.0f);
  REQUIRE(total.value().item<float>() == 3.0f * static_cast<float>(n));
  REQUIRE(plain.value().item<float>() == 2.0f);
}

TEST_CASE("checkpoints are refused where variables are not whole", "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(2), other(1);
  Variable variable = make(&strategy, Tensor::scalar(1.0f));
  Checkpoint c({{"v", variable}});
  c.save(path);
  const auto save = [&] { c.save(directory / "g"); };
  const auto restore = [&] { c.restore(path); };
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext&) { save(); }), ContextError,
                         says("Checkpoint::save inside replica 0's function of MirroredStrategy",
                              "Call it outside run, or in a function given to merge_call"));
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext&) { restore(); }), ContextError,
                         says("Checkpoint::restore inside replica 0"));
  auto& x = strategy.extended();
  REQUIRE_THROWS_MATCHES(
      x.update(variable, [&](Tensor&) { save(); }), ContextError,
      says("Checkpoint::save inside an update function of MirroredStrategy", "after update"));
  REQUIRE_THROWS_MATCHES(x.update(variable, [&](Tensor&) { restore(); }), ContextError,
                         says("Checkpoint::restore inside an update function"));
  const auto scope = other.scope();
  REQUIRE_THROWS_MATCHES(save(), ContextError,
                         says("Checkpoint::save of MirroredStrategy", "another strategy"));
  REQUIRE_THROWS_MATCHES(restore(), ContextError, says("Checkpoint::restore of MirroredStrategy"));
  REQUIRE(directory.names() == std::set<std::string>{"f"});
}

TEST_CASE("nothing is assigned in another strategy's scope, though some variables could be",
          "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  Replicas strategy(2), other(1);
  Variable a = make(nullptr, Tensor::scalar(1.0f)), b = make(&strategy, Tensor::scalar(1.0f));
  Checkpoint c({{"a", a}, {"b", b}});
  c.save(directory / "f");
  a.assign(2);
  b.assign(2);
  {
    const auto scope = other.scope();
    REQUIRE_THROWS_AS(c.restore(directory / "f"), ContextError);
  }
  REQUIRE(a.value().item<float>() == 2.0f);
  REQUIRE(components(b) == std::vector<float>{2, 2});
}

TEST_CASE("a file that does not match changes no component", "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(2);
  Variable a = make(&strategy, Tensor::scalar(1.0f)),
           b = make(&strategy, Tensor::scalar(1.0f), {.name = "b"});
  Checkpoint c({{"a", a}, {"b", b}});
  c.save(path);
  a.assign(2);
  b.assign(2);
  const std::string bytes = read_bytes(path);
  const auto check = [&](const auto&... parts) {
    REQUIRE_THROWS_MATCHES(c.restore(path), InvalidArgument, says(path.string(), parts...));
    REQUIRE(components(a) == std::vector<float>{2, 2});
    REQUIRE(components(b) == std::vector<float>{2, 2});
  };
  write_bytes(path, bytes.substr(0, bytes.size() - 1));
  check("entry 'b'");
  Checkpoint({{"a", a}, {"b", make(&strategy, Tensor::zeros({2}))}}).save(path);
  check("entry 'b': it is [2] float32, the variable 'b' [] float32");
}

TEST_CASE("checkpoint-round-trip: reads before and after agree for every kind of variable",
          "[strategy][checkpoint][on_read]") {
  const TemporaryDirectory directory;
  const auto synchronization = GENERATE(on_write, on_read);
  const auto aggregation = GENERATE(sum, mean, only_first_replica);
  Replicas strategy(2);
  const Tensor value = Tensor::from<float>({1, 2, 3, 4}, {4});
  Variable variable =
      make(&strategy, value, {.synchronization = synchronization, .aggregation = aggregation});
  const std::vector<float> before = variable.value().to_vector<float>();
  Checkpoint c({{"v", variable}});
  c.save(directory / "f");
  variable.assign(Tensor::from<float>({4, 3, 2, 1}, {4}));
  c.restore(directory / "f");
  REQUIRE(variable.value().to_vector<float>() == before);
}

TEST_CASE("on_read variables are saved as their aggregate and restored by their aggregation",
          "[strategy][checkpoint][on_read]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(2);
  Variable plain = make(nullptr, Tensor::scalar(0.0f));
  Checkpoint of_plain({{"v", plain}});
  const auto check = [&](VariableAggregation aggregation, float read, const std::vector<float>& restored) {
    Variable variable = on_read_variable<float>(strategy, aggregation, {3, 4});
    Checkpoint c({{"v", variable}});
    c.save(path);
    variable.assign(0);
    c.restore(path);
    REQUIRE(components(variable) == restored);
    REQUIRE(variable.value().item<float>() == read);
    of_plain.restore(path);
    REQUIRE(plain.value().item<float>() == read);
  };
  check(sum, 7, {3.5f, 3.5f});
  check(mean, 3.5f, {3.5f, 3.5f});
  check(only_first_replica, 3, {3, 3});
}

TEST_CASE("a plain value is divided among an on_read sum's components, and copied to the others",
          "[strategy][checkpoint][on_read]") {
  const TemporaryDirectory directory;
  Replicas strategy(2);
  Checkpoint({{"v", make(nullptr, Tensor::scalar(3.0f))}}).save(directory / "f");
  const auto restored = [&](VariableAggregation aggregation) {
    Variable variable = on_read_variable<float>(strategy, aggregation, {0, 0});
    Checkpoint({{"v", variable}}).restore(directory / "f");
    return components(variable);
  };
  REQUIRE(restored(sum) == std::vector<float>{1.5f, 1.5f});
  REQUIRE(restored(mean) == std::vector<float>{3, 3});
  REQUIRE(restored(only_first_replica) == std::vector<float>{3, 3});
}

TEST_CASE("P14 an on_read sum reads the same on any number of replicas, integers too",
          "[strategy][checkpoint][on_read]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas from(2), to(n);
  const Variable total = on_read_variable<float>(from, sum, {5, 3});
  const Variable count = on_read_variable<std::int32_t>(from, sum, {4, 3});
  Checkpoint({{"total", total}, {"count", count}}).save(path);
  const std::vector<float> zeros(static_cast<std::size_t>(n), 0.0f);
  Variable total_here = on_read_variable<float>(to, sum, zeros);
  Variable count_here =
      on_read_variable<std::int32_t>(to, sum, std::vector<std::int32_t>(static_cast<std::size_t>(n), 0));
  Checkpoint({{"total", total_here}, {"count", count_here}}).restore(path);
  REQUIRE(count_here.value().item<std::int32_t>() == 7);
  REQUIRE(total_here.value().item<float>() == 8.0f);
  if (n == 2) REQUIRE(components<std::int32_t>(count_here) == std::vector<std::int32_t>{4, 3});
  if (n == 4) REQUIRE(components<std::int32_t>(count_here) == std::vector<std::int32_t>{2, 2, 2, 1});
}

TEST_CASE("a file that one variable cannot take changes none", "[strategy][checkpoint]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(2);
  Variable a = make(&strategy, Tensor::scalar(1.0f));
  Checkpoint({{"a", a}, {"z", make(&strategy, Tensor::scalar(1.5))}}).save(path);
  a.assign(9.0f);
  const Variable count = on_read_variable<std::int64_t>(strategy, sum, {2, 2});
  REQUIRE_THROWS_MATCHES(Checkpoint({{"a", a}, {"z", count}}).restore(path), InvalidArgument,
                         says("entry 'z'", "float64", "int64"));
  REQUIRE(components(a) == std::vector<float>{9, 9});
  REQUIRE(components<std::int64_t>(count) == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("a checkpoint beside steps of another thread is of one moment", "[strategy][checkpoint][threads]") {
  const int kSaves = kSlowBuild ? 5 : 50;
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  // Of the default strategy, whose calls no lock keeps apart.
  const Variable w(Tensor::scalar(0.0f)), v(Tensor::scalar(0.0f));
  optim::SGD optimizer({.learning_rate = 1});
  metrics::Mean mean;
  const auto step = [&] {
    optimizer.apply_gradients({{Tensor::scalar(-1.0f), w}, {Tensor::scalar(-1.0f), v}});
    mean.update(Tensor::scalar(1.0f));
  };
  step();
  Checkpoint checkpoint({{"w", w}, {"v", v}});
  checkpoint.add("optimizer", optimizer).add("mean", mean);
  Variable w_then(Tensor::scalar(0.0f)), v_then(Tensor::scalar(0.0f)), total(Tensor::scalar(0.0)),
      count(Tensor::scalar(0.0)), iterations(Tensor::scalar(std::int64_t{0}));
  Checkpoint then({{"w", w_then},
                   {"v", v_then},
                   {"optimizer/iterations", iterations},
                   {"mean/total", total},
                   {"mean/count", count}});
  std::atomic<bool> done{false};
  std::thread stepper([&] {
    while (!done) step();
  });
  int wrong = 0;
  for (int i = 0; i < kSaves; ++i) {
    checkpoint.save(path);
    then.restore(path);
    const float steps = static_cast<float>(iterations.value().item<std::int64_t>());
    wrong += w_then.value().item<float>() != steps || v_then.value().item<float>() != steps;
    wrong += total.value().item<double>() != count.value().item<double>();
  }
  done = true;
  stepper.join();
  REQUIRE(wrong == 0);
}

TEST_CASE("an on_read variable without aggregation cannot be saved", "[strategy][checkpoint][on_read]") {
  const TemporaryDirectory directory;
  Replicas strategy(2);
  const Variable variable = on_read_variable<float>(strategy, none, {3, 4});
  REQUIRE_THROWS_MATCHES(Checkpoint({{"key", variable}}).save(directory / "f"), InvalidArgument,
                         says("Checkpoint::save: \"" + (directory / "f").string() + "\", entry 'key'",
                              "the on_read variable 'r' has aggregation none", "another aggregation"));
  REQUIRE(directory.names().empty());
}

}  // namespace lockstep::test

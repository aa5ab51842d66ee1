#include <optional>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Contexts and scopes.
namespace lockstep::test {

namespace {

/// What the queries answer.
struct Answers {
  const Strategy* strategy;
  bool has_strategy;
  bool cross_replica;
  std::optional<int> replica;  // of get_replica_context(), nothing where that is null
  std::optional<int> update;

  friend bool operator==(const Answers&, const Answers&) = default;
};

Answers ask() {
  const ReplicaContext* const context = get_replica_context();
  return {&get_strategy(), has_strategy(), in_cross_replica_context(),
          context != nullptr ? std::optional(context->replica_id_in_sync_group()) : std::nullopt,
          get_update_replica_id()};
}

Answers in_default() { return {&get_strategy(), false, false, 0, {}}; }
Answers in_cross_replica(const Strategy& strategy) { return {&strategy, true, true, {}, {}}; }

}  // namespace

TEST_CASE("default-state: one replica of the default strategy", "[strategy][context]") {
  REQUIRE(get_replica_context() != nullptr);
  REQUIRE(get_replica_context()->replica_id_in_sync_group() == 0);
  REQUIRE(get_replica_context()->num_replicas_in_sync() == 1);
  REQUIRE_FALSE(in_cross_replica_context());
  REQUIRE_FALSE(has_strategy());
  REQUIRE(&get_replica_context()->strategy() == &get_strategy());
  REQUIRE(get_strategy().num_replicas_in_sync() == 1);
  REQUIRE(get_update_replica_id() == std::nullopt);
}

TEST_CASE("scope-state: cross-replica context until the end of the block", "[strategy][context]") {
  Replicas strategy(2);
  {
    const auto scope = strategy.scope();
    REQUIRE(get_replica_context() == nullptr);
    REQUIRE(ask() == in_cross_replica(strategy));
    {
      const auto again = strategy.scope();
      REQUIRE(ask() == in_cross_replica(strategy));
    }
    REQUIRE(ask() == in_cross_replica(strategy));
  }
  REQUIRE(ask() == in_default());
}

TEST_CASE("run-context: a replica function knows its replica", "[strategy][context]") {
  Replicas strategy(2);
  std::vector<Answers> seen(2);
  const auto ids = strategy.run([&](ReplicaContext& ctx) {
    const int id = ctx.replica_id_in_sync_group();
    seen[static_cast<std::size_t>(id)] = ask();
    return get_replica_context() == &ctx ? id : -1;
  });
  for (int id : {0, 1}) {
    REQUIRE(ids[id] == id);
    REQUIRE(seen[static_cast<std::size_t>(id)] == Answers{&strategy, true, false, id, {}});
  }
  REQUIRE_THROWS_MATCHES(strategy.run([&] { strategy.run([] {}); }), ContextError,
                         says("run of MirroredStrategy", "inside replica", "merge_call"));
}

TEST_CASE("the update function is in cross-replica context with the component's index",
          "[strategy][context]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(0.0f));
  std::vector<Answers> seen;
  strategy.extended().update(variable, [&](Tensor&) { seen.push_back(ask()); });
  REQUIRE(seen.size() == 2);
  for (int i : {0, 1}) REQUIRE(seen[static_cast<std::size_t>(i)] == Answers{&strategy, true, true, {}, i});
}

TEST_CASE("the merge function is in cross-replica context", "[strategy][context]") {
  Replicas strategy(2);
  std::optional<Answers> seen;
  strategy.run([&](ReplicaContext& ctx) { ctx.merge_call([&](Strategy&) { seen = ask(); }); });
  REQUIRE(seen == in_cross_replica(strategy));
}

TEST_CASE("a new thread starts in the default context", "[strategy][context]") {
  Replicas strategy(2);
  const Strategy& standard = get_strategy();
  const auto scope = strategy.scope();
  std::optional<Answers> seen;
  std::thread([&] { seen = ask(); }).join();
  REQUIRE(seen == Answers{&standard, false, false, 0, {}});
}

TEST_CASE("scope-mixing-calls: calls of a strategy inside another's scope are refused",
          "[strategy][context]") {
  Replicas s(2), s2(1);
  const auto value = scalars<float>({1, 2});
  const auto scope = s2.scope();
  const auto mixing = says("another strategy", "cannot be mixed");
  REQUIRE_THROWS_MATCHES(s.reduce(ReduceOp::sum, value), ContextError, mixing);
  REQUIRE_THROWS_MATCHES(s.extended().reduce_to(ReduceOp::sum, value, "CPU:0"), ContextError, mixing);
  REQUIRE_THROWS_MATCHES(s.run([] {}), ContextError, mixing);
  REQUIRE_THROWS_MATCHES(s.gather(value, 0), ContextError, mixing);
  REQUIRE_THROWS_MATCHES(s.distribute_values_from_function([](ValueContext) { return 1; }), ContextError,
                         mixing);
  REQUIRE_THROWS_MATCHES(s.scope(), ContextError, mixing);
  REQUIRE(ask() == in_cross_replica(s2));
}

TEST_CASE("strategies are not mixed inside replica functions either", "[strategy][context]") {
  Replicas s(2), s2(1);
  REQUIRE_THROWS_MATCHES(s.run([&] { s2.run([] {}); }), ContextError, says("cannot be mixed"));
  REQUIRE_THROWS_MATCHES(s.run([&] { auto scope = s2.scope(); }), ContextError, says("cannot be mixed"));
  REQUIRE_THROWS_MATCHES(
      s.run([&](ReplicaContext& ctx) { ctx.merge_call([&](Strategy&) { s2.run([] {}); }); }), ContextError,
      says("run of MirroredStrategy", "cannot be mixed"));
  Strategy& standard = get_strategy();
  REQUIRE_THROWS_MATCHES(s.run([&] { auto scope = standard.scope(); }), ContextError,
                         says("scope of the default strategy"));
}

TEST_CASE("cross-replica calls in a replica function are refused and point to what to use",
          "[strategy][context]") {
  Replicas strategy(2);
  const auto value = scalars<float>({1, 2});
  auto& x = strategy.extended();
  const auto refused = [](const char* what) {
    return says(what, "inside replica", "all_reduce", "merge_call");
  };
  REQUIRE_THROWS_MATCHES(strategy.run([&] { static_cast<void>(strategy.reduce(ReduceOp::sum, value)); }),
                         ContextError, refused("reduce"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { static_cast<void>(strategy.gather(value, 0)); }), ContextError,
                         refused("gather"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { auto scope = strategy.scope(); }), ContextError,
                         refused("scope"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { static_cast<void>(x.reduce_to(ReduceOp::sum, value, value)); }),
                         ContextError, refused("reduce_to"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    static_cast<void>(x.batch_reduce_to(ReduceOp::sum, {{value, value}}));
  }),
                         ContextError, refused("batch_reduce_to"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { static_cast<void>(x.broadcast_to(Tensor::scalar(1))); }),
                         ContextError, refused("broadcast_to"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    static_cast<void>(strategy.distribute_values_from_function([](ValueContext) { return 1; }));
  }),
                         ContextError, refused("distribute_values_from_function"));
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(0.0f));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { x.update(variable, [](Tensor&) {}); }), ContextError,
                         refused("update"));
}

TEST_CASE("the default strategy's scope changes nothing", "[strategy][context]") {
  const Answers before = ask();
  const auto scope = get_strategy().scope();
  REQUIRE(ask() == before);
  REQUIRE(get_strategy().run([] { return ask(); })[0] == before);
}

TEST_CASE("the default strategy's scope is refused inside another strategy's", "[strategy][context]") {
  Replicas strategy(2);
  Strategy& standard = get_strategy();
  const auto scope = strategy.scope();
  REQUIRE_THROWS_MATCHES(standard.scope(), ContextError,
                         says("scope of the default strategy", "MirroredStrategy", "cannot be mixed"));
}

TEST_CASE("set-strategy: a strategy can be made current without a guard", "[strategy][context]") {
  Replicas s(2), s2(1);
  set_strategy(&s);
  REQUIRE(ask() == in_cross_replica(s));
  REQUIRE(s.reduce(ReduceOp::sum, scalars<float>({1, 2})).item<float>() == 3.0f);
  set_strategy(&s2);
  REQUIRE(ask() == in_cross_replica(s2));
  REQUIRE_THROWS_MATCHES(s.run([] {}), ContextError, says("cannot be mixed"));
  {
    const auto scope = s2.scope();
    REQUIRE_THROWS_MATCHES(set_strategy(&s), ContextError,
                           says("set_strategy(MirroredStrategy)", "inside a scope"));
  }
  set_strategy(nullptr);
  REQUIRE(ask() == in_default());

  const auto scope = s.scope();
  for (Strategy* any :
       {static_cast<Strategy*>(&s), static_cast<Strategy*>(&s2), static_cast<Strategy*>(nullptr)})
    REQUIRE_THROWS_MATCHES(set_strategy(any), ContextError,
                           says("inside a scope of MirroredStrategy", "Leave the scope first"));
  REQUIRE(ask() == in_cross_replica(s));
}

TEST_CASE("set_strategy in a replica function and in the default strategy's scope is refused",
          "[strategy][context]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([&] { set_strategy(nullptr); }), ContextError,
                         says("set_strategy(nullptr)"));
  const auto scope = get_strategy().scope();
  REQUIRE_THROWS_MATCHES(set_strategy(&strategy), ContextError,
                         says("inside a scope of the default strategy"));
}

TEST_CASE("a scope that is left before one entered after it leaves that one", "[strategy][context]") {
  Replicas s(2);
  std::optional<StrategyScope> outer(std::in_place, s);
  std::optional<StrategyScope> inner(std::in_place, s);
  outer.reset();
  REQUIRE(ask() == in_cross_replica(s));
  inner.reset();
  REQUIRE(ask() == in_default());
}

TEST_CASE("a scope whose strategy is destroyed says so", "[strategy][context]") {
  const auto destroyed = says("scope of a strategy that has been destroyed", "Leave the scope");
  std::optional<Replicas> strategy(std::in_place, 2);
  Replicas other(1);
  Variable plain(Tensor::scalar(1.0f));
  const auto check = [&] {
    REQUIRE_THROWS_MATCHES(get_strategy(), ContextError, destroyed);
    REQUIRE_THROWS_MATCHES(has_strategy(), ContextError, destroyed);
    REQUIRE_THROWS_MATCHES(Variable(Tensor::scalar(1.0f)), ContextError, destroyed);
    REQUIRE_THROWS_MATCHES(other.run([] {}), ContextError, destroyed);
    REQUIRE(plain.value().item<float>() == 1);
  };
  SECTION("scope") {
    std::optional<StrategyScope> scope(std::in_place, *strategy);
    strategy.reset();
    check();
    scope.reset();
  }
  SECTION("set_strategy") {
    set_strategy(&*strategy);
    strategy.reset();
    check();
    set_strategy(nullptr);
  }
  REQUIRE(ask() == in_default());
}

TEST_CASE("guards of every kind may be left in any order", "[strategy][context]") {
  Replicas s(2);
  const Device device = s.extended().worker_devices()[1];
  const Device outside = current_device();
  std::optional<DeviceScope> outer(std::in_place, device), inner(std::in_place, device);
  outer.reset();
  REQUIRE(current_device() == device);
  inner.reset();
  REQUIRE(current_device() == outside);

  const Stream first(device), second(device);
  const StreamRef before = current_stream(device);
  std::optional<StreamScope> outer_stream(std::in_place, first), inner_stream(std::in_place, second);
  outer_stream.reset();
  REQUIRE(current_stream(device) == second);
  inner_stream.reset();
  REQUIRE(current_stream(device) == before);

  std::optional<sync_on_read> outer_read(std::in_place), inner_read(std::in_place);
  outer_read.reset();
  REQUIRE(sync_on_read::is_active());
  inner_read.reset();
  REQUIRE(!sync_on_read::is_active());
}

TEST_CASE("contexts are restored when a function throws", "[strategy][context]") {
  Replicas strategy(2);
  REQUIRE_THROWS(strategy.run([] { throw 1; }));
  REQUIRE(ask() == in_default());
  const auto scope = strategy.scope();
  REQUIRE_THROWS(strategy.run([](ReplicaContext& ctx) { ctx.merge_call([](Strategy&) { throw 1; }); }));
  REQUIRE(ask() == in_cross_replica(strategy));
  REQUIRE(current_device() == Device());
}

TEST_CASE("the default strategy has no devices of its own", "[strategy][context]") {
  REQUIRE_THROWS_MATCHES(get_strategy().extended().worker_devices(), ContextError,
                         says("worker_devices of the default strategy"));
  REQUIRE_THROWS_MATCHES(get_strategy().extended().parameter_devices(), ContextError,
                         says("parameter_devices of the default strategy"));
}

}  // namespace lockstep::test

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/world.hpp"

/// A function that throws, or a replica that does not come: every worker is told, and the strategy works
/// again.
namespace lockstep::test {

using namespace std::chrono_literals;

namespace {

struct Special : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int id_of(const ReplicaContext& ctx) { return ctx.replica_id_in_sync_group(); }

/// Whether a worker has been told of a Special that was thrown on a replica: by itself where it was thrown,
/// by an Error with its text elsewhere.
bool is_special_of(const Thrown& thrown, int replica, const std::string& text) {
  return thrown.has(text) && (world().is_own(replica) ? thrown.is<Special>() : thrown.is<Error>());
}

}  // namespace

TEST_CASE("a replica's exception ends the run on every worker, wherever the others wait", "[workers]") {
  const World& w = world();
  const int thrower = GENERATE_COPY(0, w.num_replicas / 2, w.last_replica());
  const int num_calls = GENERATE(0, 1, 3);
  CAPTURE(thrower, num_calls);
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      for (int k = 0; k < num_calls; ++k) static_cast<void>(ctx.all_reduce(ReduceOp::sum, k));
      if (id_of(ctx) == thrower) throw Special("thrown by one");
      static_cast<void>(ctx.all_gather(Tensor::zeros({1}), 0));
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
    });
  });
  CHECK(is_special_of(thrown, thrower, "thrown by one"));
}

TEST_CASE("an exception before a merge call, or in one, ends the run on every worker", "[workers]") {
  const World& w = world();
  const Thrown before = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      if (id_of(ctx) == w.last_replica()) throw Special("before merging");
      ctx.merge_call([](Strategy& strategy) {
        static_cast<void>(strategy.extended().reduce_to(
            ReduceOp::mean, values([](int) { return Tensor::scalar(1.0f); }), world().devices[0]));
      });
    });
  });
  CHECK(is_special_of(before, w.last_replica(), "before merging"));
  const Thrown within = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      ctx.merge_call([](Strategy& strategy) {
        if (world().worker == world().num_workers - 1) throw Special("merging");
        static_cast<void>(strategy.reduce(ReduceOp::sum, values([](int) { return Tensor::scalar(1.0f); })));
      });
    });
  });
  CHECK(is_special_of(within, w.last_replica(), "merging"));
}

TEST_CASE("where every replica throws, a worker throws its own lowest replica's exception", "[workers]") {
  const World& w = world();
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
      throw Special("thrown by " + std::to_string(id_of(ctx)) + ".");
    });
  });
  CHECK(thrown.is<Special>());
  CHECK(thrown.text == "thrown by " + std::to_string(w.first_replica) + ".");
}

TEST_CASE("the local failures are listed, with global ids", "[workers]") {
  const World& w = world();
  const Thrown thrown = thrown_by([&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
      throw Special("thrown by " + std::to_string(id_of(ctx)) + ".");
    });
  });
  const auto failures = w.strategy.last_failures();
  CHECK(thrown.is<Special>());
  CHECK(static_cast<int>(failures.size()) == w.num_local_replicas);
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const int replica = w.first_replica + static_cast<int>(i);
    CHECK(failures[i].replica == replica);
    CHECK(failures[i].message == "thrown by " + std::to_string(replica) + ".");
  }
  CHECK(is_usable(w.strategy));
}

TEST_CASE("a failure without a collective is told once, in this call or in the next", "[workers]") {
  const World& w = world();
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      if (id_of(ctx) == w.last_replica()) throw Special("alone");
    });
  });
  CHECK(is_special_of(thrown, w.last_replica(), "alone"));
}

TEST_CASE("failures on other replicas in turn leave all workers in step", "[workers]") {
  const World& w = world();
  for (int round = 0; round < 30; ++round) {
    const int thrower = round % w.num_replicas;
    const Thrown thrown = thrown_once(w.strategy, [&] {
      w.strategy.run([&](ReplicaContext& ctx) {
        for (int k = 0; k < round % 4; ++k) static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
        if (id_of(ctx) == thrower) throw Special("round " + std::to_string(round) + ".");
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
      });
    });
    CHECK(is_special_of(thrown, thrower, "round " + std::to_string(round) + "."));
  }
}

TEST_CASE("a dataset's, a variable's and a reduction's function may throw on one worker", "[workers]") {
  const World& w = world();
  const Thrown made = thrown_once(w.strategy, [&] {
    static_cast<void>(w.strategy.make_variable([]() -> Tensor { throw Special("no initial value"); }));
  });
  CHECK(made.has("no initial value"));
  const Thrown given = thrown_by([&] {
    static_cast<void>(w.strategy.distribute_values_from_function(
        [](ValueContext) -> Tensor { throw Special("no value"); }));
  });
  CHECK(given.is<Special>());
  CHECK(is_usable(w.strategy));
}

TEST_CASE("a time limit names the replica that does not come", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  const auto strategy = w.make_strategy({.timeout = 100ms});
  const Signal timed_out;
  const Thrown thrown = thrown_by([&] {
    strategy->run([&](ReplicaContext& ctx) {
      if (id_of(ctx) == w.last_replica()) return timed_out.receive();
      try {
        static_cast<void>(ctx.all_reduce(ReduceOp::mean, 1.0f));
      } catch (...) {
        if (id_of(ctx) == 0) timed_out.send();
        throw;
      }
    });
  });
  // A worker that began to wait later may hear first that the last one's strategy has gone.
  const bool is_first = w.worker == 0 && w.worker_of(w.last_replica()) != 0;
  if (w.num_workers == 1 || is_first) {
    CHECK(thrown.is<CollectiveTimeout>());
    CHECK(thrown.has("all_reduce(mean)"));
    CHECK(thrown.has("100 ms"));
    CHECK(thrown.names(w.last_replica()));
  } else if (thrown) {
    CHECK(thrown.is<Error>());
  }
  const auto another = w.make_strategy({.timeout = 60s});
  CHECK(is_usable(*another));
  CHECK(is_usable(w.strategy));
}

TEST_CASE("a call's time limit names the replica that does not come", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  const auto strategy = w.make_strategy();
  const Signal timed_out;
  const Thrown thrown = thrown_by([&] {
    strategy->run([&](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
      if (id_of(ctx) == w.last_replica()) return timed_out.receive();
      try {
        static_cast<void>(ctx.all_gather(Tensor::zeros({1}), 0, {.timeout = 100ms}));
      } catch (...) {
        if (id_of(ctx) == 0) timed_out.send();
        throw;
      }
    });
  });
  const bool is_first = w.worker == 0 && w.worker_of(w.last_replica()) != 0;
  if (w.num_workers == 1 || is_first) {
    CHECK(thrown.is<CollectiveTimeout>());
    CHECK(thrown.has("all_gather"));
    CHECK(thrown.has("call 1"));
    CHECK(thrown.names(w.last_replica()));
  }
  // Between workers a time-out is the end of a strategy, but not of the processes.
  if (w.num_workers == 1) CHECK(is_usable(*strategy));
  CHECK(is_usable(w.strategy));
}

}  // namespace lockstep::test

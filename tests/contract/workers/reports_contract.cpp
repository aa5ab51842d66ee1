#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/world.hpp"

/// What workers tell of each other's replicas.
namespace lockstep::test {

using namespace std::chrono_literals;

namespace {

int id_of(const ReplicaContext& ctx) { return ctx.replica_id_in_sync_group(); }

}  // namespace

TEST_CASE("a report has the replicas of all workers", "[workers]") {
  const World& w = world();
  w.strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(ReduceOp::sum, Tensor::zeros({5}), {.label = "five"}));
  });
  // One for each worker: the other workers answer whatever they do.
  const std::vector<Signal> have_asked(static_cast<std::size_t>(w.num_workers));
  if (w.worker == 0) {
    const Report report = w.strategy.report();
    CHECK(report.groups.size() == (w.num_workers > 1 ? 2 : 1));
    CHECK(static_cast<int>(report.groups[0].ranks.size()) == w.num_replicas);
    for (const RankReport& rank : report.groups[0].ranks) {
      CAPTURE(rank.rank);
      CHECK(rank.is_known);
      CHECK(rank.label.starts_with("replica " + std::to_string(rank.rank)));
      if (rank.calls.empty()) {
        CHECK_FALSE(rank.calls.empty());
        continue;
      }
      CHECK(rank.calls.back().operands == "[5] float32");
      CHECK(rank.calls.back().label == "five");
    }
    for (std::size_t other = 1; other < have_asked.size(); ++other) have_asked[other].send();
  } else {
    have_asked[static_cast<std::size_t>(w.worker)].receive();
  }
  CHECK(is_usable(w.strategy));
}

TEST_CASE("different calls are told on every worker with both's names", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  const trace::Region region("train");
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
      if (w.worker_of(id_of(ctx)) == w.num_workers - 1 &&
          (w.num_workers > 1 || id_of(ctx) == w.last_replica()))
        static_cast<void>(ctx.all_gather(Tensor::zeros({2}), 0, {.label = "odd"}));
      else
        static_cast<void>(ctx.all_reduce(ReduceOp::max, Tensor::zeros({7}), {.label = "usual"}));
    });
  });
  CHECK(thrown.is<CollectiveMismatch>());
  CHECK(thrown.has("call 1"));
  CHECK(thrown.has("all_gather of [2] float32, 'odd', in 'train'"));
  CHECK(thrown.has("all_reduce(max) of [7] float32, 'usual', in 'train'"));
}

TEST_CASE("a time-out among workers says what every replica did last", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  const auto strategy = w.make_strategy({.timeout = 200ms});
  const Signal timed_out;
  const Thrown thrown = thrown_by([&] {
    strategy->run([&](ReplicaContext& ctx) {
      static_cast<void>(
          ctx.all_reduce(ReduceOp::sum, Tensor::zeros({3}), {.timeout = 60s, .label = "first"}));
      if (id_of(ctx) == w.last_replica()) return timed_out.receive();
      try {
        static_cast<void>(ctx.all_reduce(ReduceOp::mean, 1.0f));
      } catch (...) {
        if (id_of(ctx) == 0) timed_out.send();
        throw;
      }
    });
  });
  const bool is_first = w.worker == 0 && w.worker_of(w.last_replica()) != 0;
  if (w.num_workers == 1 || is_first) {
    CHECK(thrown.is<CollectiveTimeout>());
    CHECK(thrown.has("replica " + std::to_string(w.last_replica())));
    CHECK(thrown.has("call 0, all_reduce(sum) of [3] float32, 'first'"));
  }
  const auto another = w.make_strategy({.timeout = 60s});
  CHECK(is_usable(*another));
  CHECK(is_usable(w.strategy));
}

}  // namespace lockstep::test

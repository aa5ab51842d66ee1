#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/world.hpp"

/// What workers tell of each other's replicas.
namespace lockstep::test {

using namespace std::chrono_literals;

namespace {

int id_of(const ReplicaContext& ctx) { return ctx.replica_id_in_sync_group(); }

/// What a group of the strategy reports once others wait for one of its ranks, and all others wait.
GroupReport report_once_stuck(const Strategy& strategy, std::size_t group) {
  for (;; std::this_thread::sleep_for(5ms)) {
    GroupReport report = strategy.report().groups.at(group);
    const auto num_missing = std::ranges::count_if(report.ranks, &RankReport::is_missing);
    if (num_missing == 1) return report;
  }
}

/// The others come to a call that worker 0 does not make.
void fail_on_first_worker() {
  const World& w = world();
  const Thrown thrown = thrown_by([&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      if (w.worker_of(id_of(ctx)) == 0) throw OutOfRange("a fault");
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
    });
  });
  CHECK(thrown.has("a fault"));
}

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

TEST_CASE("a report says who is waited for while a call of the replicas is stuck", "[workers]") {
  const World& w = world();
  if (w.num_workers == 1) return;
  const Signal has_asked;
  fail_on_first_worker();
  w.strategy.run([&](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
    std::thread asking;
    if (id_of(ctx) == 0)
      asking = std::thread([&] {
        const GroupReport group = report_once_stuck(w.strategy, 0);
        CHECK(group.ranks.front().calls.back().operation == "all_reduce(max)");
        for (const RankReport& rank : group.ranks) {
          CAPTURE(rank.rank);
          CHECK(rank.is_missing == (rank.rank == w.last_replica()));
        }
        has_asked.send();
      });
    if (id_of(ctx) == w.last_replica()) has_asked.receive();
    static_cast<void>(ctx.all_reduce(ReduceOp::max, 1.0f));
    if (asking.joinable()) asking.join();
  });
}

TEST_CASE("a report says who is waited for while a call of the workers is stuck", "[workers]") {
  const World& w = world();
  if (w.num_workers == 1) return;
  const Signal has_asked;
  const auto scope = w.strategy.scope();
  const Variable weights(Tensor::zeros({3}), {.name = "weights"});
  const Checkpoint checkpoint({{"weights", weights}});
  fail_on_first_worker();
  std::thread asking;
  if (w.worker == 0)
    asking = std::thread([&] {
      const GroupReport group = report_once_stuck(w.strategy, 1);
      CHECK(group.ranks.front().calls.back().operation == "Checkpoint::save");
      for (const RankReport& rank : group.ranks) {
        CAPTURE(rank.rank);
        CHECK(rank.is_missing == (rank.rank == w.num_workers - 1));
      }
      has_asked.send();
    });
  if (w.worker == w.num_workers - 1) has_asked.receive();
  checkpoint.save(w.folder / "stuck.safetensors");
  if (asking.joinable()) asking.join();
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

TEST_CASE("a mismatch of shapes tells the calls' names, or an earlier call that differs", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  const bool differs_earlier = GENERATE(false, true);
  // Whether a replica of the last worker, or the only worker's last one.
  const auto is_odd = [&](const ReplicaContext& ctx) {
    return w.num_workers > 1 ? w.worker_of(id_of(ctx)) == w.num_workers - 1 : id_of(ctx) == w.last_replica();
  };
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      const bool odd = is_odd(ctx);
      for (int i = 0; i < 3; ++i)
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, Tensor::zeros({5}),
                                         {.label = differs_earlier && odd && i == 1 ? "w/8" : "w/7"}));
      static_cast<void>(
          ctx.all_reduce(ReduceOp::sum, Tensor::zeros({odd ? 2 : 3}), {.label = odd ? "odd" : "usual"}));
    });
  });
  CHECK(thrown.is<CollectiveMismatch>());
  CHECK(thrown.has("[2] float32 differs from"));
  if (differs_earlier) {
    CHECK(thrown.has("The first recorded call that differs: call 1: "));
    CHECK(thrown.has("all_reduce(sum) of [5] float32, 'w/8'"));
    CHECK(thrown.has("all_reduce(sum) of [5] float32, 'w/7'"));
  } else {
    CHECK(thrown.has("The first recorded call that differs: call 3: "));
    CHECK(thrown.has("all_reduce(sum) of [2] float32, 'odd'"));
    CHECK(thrown.has("all_reduce(sum) of [3] float32, 'usual'"));
  }
  CHECK(is_usable(w.strategy));
}

TEST_CASE("different operations tell an earlier call that differs", "[workers]") {
  const World& w = world();
  if (w.num_workers == 1) return;
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      const bool odd = w.worker_of(id_of(ctx)) == w.num_workers - 1;
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f, {.label = odd ? "b" : "a"}));
      static_cast<void>(ctx.all_reduce(odd ? ReduceOp::sum : ReduceOp::max, 1.0f, {.label = "c"}));
    });
  });
  CHECK(thrown.is<CollectiveMismatch>());
  CHECK(thrown.has("The first recorded call that differs: call 0: "));
  CHECK(thrown.has("all_reduce(sum) of [] float32, 'b'"));
  CHECK(thrown.has("all_reduce(sum) of [] float32, 'a'"));
  CHECK(is_usable(w.strategy));
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

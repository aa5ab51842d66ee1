#include <chrono>
#include <latch>
#include <string>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <lockstep/lockstep.hpp>

#include "contract/strategy/usable.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/scoped_log_sink.hpp"

/// What is told of replicas that are stuck, or out of step.
namespace lockstep::test {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor zeros(std::int64_t n) { return Tensor::zeros({n}); }

/// The state of a call that has returned: on GPUs its work may be under way.
CallState after_return() {
  return TestBackend::capabilities().asynchronous ? CallState::enqueued : CallState::completed;
}

}  // namespace

TEST_CASE("a report of a run that is stuck names who is waited for, and what each did last",
          "[strategy][report]") {
  Replicas strategy(3);
  std::latch may_go_on(1);
  std::thread run([&] {
    const trace::Region region("train");
    strategy.run([&](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, zeros(10), {.label = "grad/2"}));
      if (replica_id_of(ctx) == 1) may_go_on.wait();
      static_cast<void>(ctx.all_reduce(ReduceOp::mean, zeros(10), {.label = "grad/3"}));
    });
  });
  Report report;
  const auto is_waiting = [&](std::size_t replica) {
    const auto& calls = report.groups.at(0).ranks.at(replica).calls;
    return calls.size() >= 2 && calls.back().state == CallState::waiting;
  };
  do report = strategy.report();
  while (!is_waiting(0) || !is_waiting(2) || report.groups[0].ranks[1].calls.empty() ||
         report.groups[0].ranks[1].calls.back().state < CallState::enqueued);
  const GroupReport& group = report.groups[0];
  CHECK(group.name == strategy.name());
  CHECK(group.difference.empty());
  CHECK_FALSE(group.ranks[0].is_missing);
  CHECK(group.ranks[1].is_missing);
  CHECK_FALSE(group.ranks[2].is_missing);
  CHECK(group.ranks[1].label == "replica 1 (" + TestBackend::device(1).to_string() + ")");
  const ReportedCall& last = group.ranks[0].calls.back();
  CHECK(last.operation == "all_reduce(mean)");
  CHECK(last.operands == "[10] float32");
  CHECK(last.label == "grad/3");
  CHECK(last.region == "train");
  CHECK(last.call == 1);
  CHECK(last.bytes == 40);
  CHECK(last.age > 0ns);
  const ReportedCall& before = group.ranks[1].calls.back();
  CHECK(before.label == "grad/2");
  CHECK(before.region == "train");
  CHECK(before.state == after_return());
  CHECK_THAT(report.to_string(),
             ContainsSubstring("(others wait for it): call 0, all_reduce(sum) of [10] float32"));
  const auto json = nlohmann::json::parse(report.to_json());
  CHECK(json["groups"][0]["ranks"][1]["missing"] == true);
  CHECK(json["groups"][0]["ranks"][0]["calls"].back()["label"] == "grad/3");
  may_go_on.count_down();
  run.join();
  report = strategy.report();
  for (const RankReport& rank : report.groups[0].ranks) {
    CHECK_FALSE(rank.is_missing);
    CHECK(rank.calls.back().state == after_return());
  }
  require_usable(strategy);
}

TEST_CASE("P44 a time-out says what the late replica did last, and the log has the report",
          "[strategy][report]") {
  Replicas strategy(2, {.timeout = 300ms});
  std::string logged;
  std::latch reported(1);
  {
    const test::ScopedLogSink sink([&](std::string_view message) { logged = message; });
    REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_reduce(ReduceOp::max, zeros(2), {.label = "first"}));
      if (replica_id_of(ctx) == 1) return reported.wait();
      try {
        static_cast<void>(ctx.all_gather(zeros(1), 0));
      } catch (...) {
        reported.count_down();
        throw;
      }
    }),
                           CollectiveTimeout,
                           says("all_gather, call 1", "missing: replica 1", ", whose last call was call 0",
                                "all_reduce(max) of [2] float32, 'first'. Make the same calls"));
  }
  CHECK_THAT(logged,
             ContainsSubstring("(others wait for it): call 0, all_reduce(max) of [2] float32, 'first'"));
  CHECK_THAT(logged, ContainsSubstring(": call 1, all_gather of [1] float32, failed"));
  require_usable(strategy);
}

TEST_CASE("replicas out of step are told by the first recorded call that differs, with the names of both",
          "[strategy][report]") {
  Replicas strategy(2);
  const trace::Region region("train");
  SECTION("another operation") {
    REQUIRE_THROWS_MATCHES(
        strategy.run([&](ReplicaContext& ctx) {
          static_cast<void>(ctx.all_reduce(ReduceOp::sum, zeros(4)));
          const ReduceOp op = replica_id_of(ctx) == 1 ? ReduceOp::min : ReduceOp::sum;
          static_cast<void>(
              ctx.all_reduce(op, zeros(10), {.label = replica_id_of(ctx) == 1 ? "low" : "loss"}));
        }),
        CollectiveMismatch,
        says("all_reduce(min), call 1: replica 1", "calls it where replica 0",
             "The first recorded call that differs: call 1: replica 1",
             "): all_reduce(min) of [10] float32, 'low', in 'train'; replica 0",
             "): all_reduce(sum) of [10] float32, 'loss', in 'train'. Make the same calls"));
  }
  SECTION("a call that one leaves out, which shows later") {
    REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
      for (const char* const name : {"grad/0", "grad/1", "grad/2", "grad/3"})
        if (replica_id_of(ctx) == 0 || std::string_view(name) != "grad/1")
          static_cast<void>(ctx.all_reduce(ReduceOp::sum, zeros(10), {.label = name}));
    }),
                           ContextError,
                           says("all_reduce(sum), call 3: replica 1", "has returned without it",
                                "The first recorded call that differs: call 1: replica 1",
                                "[10] float32, 'grad/2'", "[10] float32, 'grad/1'"));
  }
  require_usable(strategy);
}

TEST_CASE("a merge call, and a replica alone, are in reports too", "[strategy][report]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  CHECK(strategy.report().groups.at(0).ranks.at(0).calls.empty());
  strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(ReduceOp::sum, zeros(3)));
    ctx.merge_call([](Strategy&) {});
  });
  const Report report = strategy.report();
  REQUIRE(report.groups.at(0).ranks.size() == static_cast<std::size_t>(n));
  for (const RankReport& rank : report.groups[0].ranks) {
    REQUIRE_FALSE(rank.calls.empty());
    CHECK(rank.calls.back().operation == "merge_call");
    CHECK(rank.calls.back().state == CallState::completed);
  }
}

}  // namespace lockstep::test

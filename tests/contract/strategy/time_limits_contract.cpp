#include <chrono>
#include <future>
#include <latch>
#include <string>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/lockstep.hpp>

#include "contract/strategy/usable.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/scoped_log_sink.hpp"

/// Replicas that are late. A hang here ends in CTest's time limit.
namespace lockstep::test {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("P44 a late replica is reported after the time limit, with who came and who did not",
          "[strategy][failure]") {
  Replicas strategy(3);
  std::latch reported(2);
  const auto start = std::chrono::steady_clock::now();
  REQUIRE_THROWS_MATCHES(
      strategy.run([&](ReplicaContext& ctx) {
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
        if (replica_id_of(ctx) == 2) {
          reported.wait();
          return;
        }
        try {
          static_cast<void>(ctx.all_reduce(ReduceOp::mean, 1.0f, {.timeout = 50ms}));
        } catch (...) {
          reported.count_down();
          throw;
        }
      }),
      CollectiveTimeout,
      says("all_reduce(mean), call 1", "50 ms", "Present: replica 0", "replica 1", "missing: replica 2"));
  REQUIRE(std::chrono::steady_clock::now() - start < 30s);
  REQUIRE(strategy.last_failures().size() == 2);
  require_usable(strategy);
}

TEST_CASE("P44 a strategy's time limit counts for all its calls, and the late replica is told too",
          "[strategy][failure]") {
  Replicas strategy(2, {.timeout = 300ms});
  std::latch reported(1);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 1) reported.wait();
    try {
      static_cast<void>(ctx.all_gather(Tensor::zeros({1}), 0));
    } catch (...) {
      if (replica_id_of(ctx) == 0) reported.count_down();
      throw;
    }
  }),
                         CollectiveTimeout, says("all_gather, call 0", "300 ms", "missing: replica 1"));
  REQUIRE(strategy.last_failures().size() == 2);
  REQUIRE(strategy.last_failures()[1].message.find("missing: replica 1") != std::string::npos);
  require_usable(strategy);
}

TEST_CASE("P44 a time-out is logged, and among the failures, while the late replica's function still runs",
          "[strategy][failure]") {
  Replicas strategy(2, {.timeout = 50ms});
  std::promise<std::string> logged;
  const test::ScopedLogSink sink([&](std::string_view message) { logged.set_value(std::string(message)); });
  std::latch seen(1);
  std::string message;
  std::size_t num_failures = 0;
  std::thread engine([&] {
    message = logged.get_future().get();
    while (num_failures == 0) num_failures = strategy.last_failures().size();
    seen.count_down();
  });
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 1) return seen.wait();  // late until the time-out has been heard of
    static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
  }),
                         CollectiveTimeout, says("all_reduce(sum), call 0", "50 ms", "missing: replica 1"));
  engine.join();
  REQUIRE_THAT(message, ContainsSubstring("run: replica 0's function has ended: all_reduce(sum), call 0"));
  REQUIRE_THAT(message, ContainsSubstring("when the other replicas' functions have returned"));
  REQUIRE(num_failures == 1);
  REQUIRE(strategy.last_failures().size() == 1);
  require_usable(strategy);
  REQUIRE(strategy.last_failures().empty());
}

TEST_CASE("P44 merge calls have the strategy's time limit", "[strategy][failure]") {
  Replicas strategy(2, {.timeout = 300ms});
  std::latch reported(1);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 1) return reported.wait();
    try {
      ctx.merge_call([](Strategy&) {});
    } catch (...) {
      reported.count_down();
      throw;
    }
  }),
                         CollectiveTimeout, says("merge_call, call 0", "missing: replica 1"));
  require_usable(strategy);
}

TEST_CASE("a negative time limit or pack size is refused", "[strategy][failure]") {
  TestBackend::devices(2);
  REQUIRE_THROWS_MATCHES(Replicas(2, {.timeout = -1ms}), InvalidArgument, says("timeout"));
  REQUIRE_THROWS_MATCHES(Replicas(2, {.bytes_per_pack = -1}), InvalidArgument, says("bytes_per_pack"));
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1, {.bytes_per_pack = -1}));
  }),
                         InvalidArgument, says("bytes_per_pack"));
}

}  // namespace lockstep::test

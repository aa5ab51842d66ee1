#include <barrier>
#include <chrono>
#include <exception>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "contract/strategy/usable.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Replica functions that fail or fail to come. A hang here ends in CTest's time limit.
namespace lockstep::test {

using namespace std::chrono_literals;

namespace {

struct Special : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

TEST_CASE("exceptions-propagate: out of replica functions and merge functions", "[strategy][failure]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  REQUIRE_THROWS_MATCHES(strategy.run([] { throw Special("at once"); }), Special, says("at once"));
  require_usable(strategy);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    ctx.merge_call([](Strategy&) {});
    throw Special("after a merge call");
  }),
                         Special, says("after a merge call"));
  require_usable(strategy);
  REQUIRE_THROWS_MATCHES(
      strategy.run([](ReplicaContext& ctx) { ctx.merge_call([](Strategy&) { throw Special("merging"); }); }),
      Special, says("merging"));
  require_usable(strategy);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    ctx.merge_call([](Strategy&) {});
    ctx.merge_call([](Strategy&) { throw Special("the second"); });
  }),
                         Special, says("the second"));
  require_usable(strategy);
}

TEST_CASE("the merge function is not called when a replica fails before it", "[strategy][failure]") {
  Replicas strategy(2);
  bool called = false;
  REQUIRE_THROWS_AS(strategy.run([&](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 1) throw Special("no");
    ctx.merge_call([&](Strategy&) { called = true; });
  }),
                    Special);
  REQUIRE_FALSE(called);
}

TEST_CASE("merge-call-count-mismatch: a replica that makes fewer merge calls is named",
          "[strategy][failure]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 0) ctx.merge_call([](Strategy&) {});
  }),
                         ContextError, says("merge_call, call 0", "replica 1", "has returned without it"));
  require_usable(strategy);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    ctx.merge_call([](Strategy&) {});
    if (replica_id_of(ctx) == 1) ctx.merge_call([](Strategy&) {});
  }),
                         ContextError, says("merge_call, call 1", "replica 0", "has returned without it"));
  require_usable(strategy);
}

TEST_CASE("P21 a replica throws before a collective that another has entered", "[strategy][failure]") {
  Replicas strategy(2);
  std::latch entering(1);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 1) {
      entering.wait();
      throw Special("replica 1");
    }
    entering.count_down();
    return ctx.all_reduce(ReduceOp::sum, 1.0f);
  }),
                         Special, says("replica 1"));
  const auto failures = strategy.last_failures();
  REQUIRE(failures.size() == 1);  // replica 0 was only released
  REQUIRE(failures[0].replica == 1);
  REQUIRE(failures[0].message == "replica 1");
  REQUIRE_THROWS_AS(std::rethrow_exception(failures[0].error), Special);
  require_usable(strategy);
}

TEST_CASE("P21 a replica throws after some collectives, with any number of replicas", "[strategy][failure]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const int thrower = GENERATE_COPY(range(0, n));
  Replicas strategy(n);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    for (int k = 0; k < 3; ++k) static_cast<void>(ctx.all_reduce(ReduceOp::sum, k));
    if (replica_id_of(ctx) == thrower) throw Special("thrown");
    static_cast<void>(ctx.all_gather(Tensor::zeros({1}), 0));
    ctx.merge_call([](Strategy&) {});
  }),
                         Special, says("thrown"));
  require_usable(strategy);
}

TEST_CASE("the stop signal cannot be swallowed for good", "[strategy][failure]") {
  Replicas strategy(3);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 1) throw Special("replica 1");
    for (int k = 0; k < 3; ++k) {
      try {
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
        ctx.merge_call([](Strategy&) {});
      } catch (...) {
      }
    }
    return 5;
  }),
                         Special, says("replica 1"));
  require_usable(strategy);
}

TEST_CASE("a merge function's exception reaches the caller of run whatever the replicas do with it",
          "[strategy][failure]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    try {
      ctx.merge_call([](Strategy&) { throw Special("merging"); });
    } catch (...) {
    }
    try {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));  // the others may have gone
    } catch (...) {
    }
    return Tensor::scalar(1);
  }),
                         Special, says("merging"));
  REQUIRE(strategy.last_failures().size() == 1);
  REQUIRE(strategy.last_failures()[0].replica == 0);
  require_usable(strategy);
}

TEST_CASE("the lowest replica's exception decides, and every message is kept", "[strategy][failure]") {
  Replicas strategy(4);
  std::barrier all(4);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    all.arrive_and_wait();
    if (replica_id_of(ctx) == 3) throw Special("third");
    if (replica_id_of(ctx) == 1) throw InvalidArgument("first");
    if (replica_id_of(ctx) == 2) throw 2;
  }),
                         InvalidArgument, says("first"));
  const auto failures = strategy.last_failures();
  REQUIRE(failures.size() == 3);
  REQUIRE((failures[0].replica == 1 && failures[0].message == "first"));
  REQUIRE((failures[1].replica == 2 && failures[1].message == "an exception that is not a std::exception"));
  REQUIRE((failures[2].replica == 3 && failures[2].message == "third"));
  REQUIRE_THROWS_AS(std::rethrow_exception(failures[1].error), int);
  require_usable(strategy);
}

TEST_CASE("a cause counts for more than its consequences on lower replicas", "[strategy][failure]") {
  Replicas strategy(3);
  std::latch returned(1);
  // Replica 1 returns, so that replica 0 is told it is missing; replica 2's own failure is the cause to
  // report.
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 0) {
      try {
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
      } catch (...) {
        returned.count_down();
        throw;
      }
    }
    if (replica_id_of(ctx) == 2) {
      returned.wait();
      throw Special("replica 2");
    }
  }),
                         Special, says("replica 2"));
  require_usable(strategy);
}

TEST_CASE("P22 a collective that not all replicas enter names the missing one", "[strategy][failure]") {
  const int n = GENERATE(2, 3, 4);
  Replicas strategy(n);
  REQUIRE_THROWS_MATCHES(
      strategy.run([](ReplicaContext& ctx) {
        if (replica_id_of(ctx) == 0) static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
      }),
      ContextError,
      says("all_reduce(sum), call 0", "has returned without it", "same calls on every replica"));
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
    if (replica_id_of(ctx) == 1) return;
    static_cast<void>(ctx.all_gather(Tensor::zeros({1}), 0));
  }),
                         ContextError, says("all_gather, call 1", "replica 1", "has returned without it"));
  require_usable(strategy);
}

TEST_CASE("P22 a replica with an empty batch still takes part", "[strategy][failure]") {
  Replicas strategy(2);
  const auto rows = vectors<float>({{1, 2}, {}});
  const auto sums =
      strategy.run([](ReplicaContext& ctx,
                      const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, sum(x)).item<float>(); },
                   rows);
  REQUIRE((sums[0] == 3.0f && sums[1] == 3.0f));
}

TEST_CASE("different calls at the same moment are refused, naming both", "[strategy][failure]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(replica_id_of(ctx) == 0 ? ReduceOp::sum : ReduceOp::max, 1.0f));
  }),
                         CollectiveMismatch,
                         says("replica 1", "all_reduce(max)", "replica 0", "all_reduce(sum)"));
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 0)
      ctx.merge_call([](Strategy&) {});
    else
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
  }),
                         CollectiveMismatch, says("replica 1", "all_reduce(sum)", "replica 0", "merge_call"));
  require_usable(strategy);
}

TEST_CASE("a mismatch that all replicas handle is over", "[strategy][failure]") {
  Replicas strategy(2);
  const auto sums = strategy.run([](ReplicaContext& ctx) {
    try {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, Tensor::zeros({1 + replica_id_of(ctx)})));
    } catch (const CollectiveMismatch&) {
      return ctx.all_reduce(ReduceOp::sum, 1).item<int>();
    }
    return 0;
  });
  REQUIRE((sums[0] == 2 && sums[1] == 2));
}

TEST_CASE("a result is not handed out when replicas' results cannot be merged, and the strategy stays usable",
          "[strategy][failure]") {
  Replicas strategy(2);
  REQUIRE_THROWS_AS(strategy.run([](ReplicaContext& ctx) {
    return std::vector<Tensor>(static_cast<std::size_t>(replica_id_of(ctx)), Tensor::scalar(1));
  }),
                    InvalidArgument);
  require_usable(strategy);
}

TEST_CASE("a thousand failing runs leave nothing behind", "[strategy][failure]") {
  Replicas strategy(3);
  int caught = 0;
  for (int round = 0; round < (kSlowBuild ? 100 : 1000); ++round) {
    try {
      strategy.run([round](ReplicaContext& ctx) {
        if (replica_id_of(ctx) == round % 3) throw round;
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1));
      });
    } catch (int thrown) {
      caught += thrown == round;
    }
  }
  REQUIRE(caught == (kSlowBuild ? 100 : 1000));
  require_usable(strategy);
}

TEST_CASE("an exception that released a replica of an earlier run is an error in a later one",
          "[strategy][failure]") {
  const int n = GENERATE(2, 3);
  Replicas strategy(n);
  std::exception_ptr kept;
  REQUIRE_THROWS_AS(strategy.run([&](ReplicaContext& ctx) {
    if (replica_id_of(ctx) == 1) throw Special("first");
    try {
      ctx.all_reduce(ReduceOp::sum, 1);
    } catch (...) {
      if (replica_id_of(ctx) == 0) kept = std::current_exception();
      throw;
    }
  }),
                    Special);
  const auto message = says("run: replica 0's function threw", "released a replica of an earlier run");
  const auto rethrow_on_0 = [&](const std::function<Tensor(ReplicaContext&)>& others) {
    return strategy.run([&](ReplicaContext& ctx) -> Tensor {
      if (replica_id_of(ctx) == 0) std::rethrow_exception(kept);
      return others(ctx);
    });
  };
  REQUIRE_THROWS_MATCHES(rethrow_on_0([](ReplicaContext&) { return Tensor::scalar(1.0f); }), ContextError,
                         message);
  REQUIRE(strategy.last_failures().size() == 1);
  require_usable(strategy);
  REQUIRE_THROWS_MATCHES(
      rethrow_on_0([](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, Tensor::scalar(1.0f)); }),
      ContextError, message);
  require_usable(strategy);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    return ctx.merge_call([&](Strategy&) -> Tensor { std::rethrow_exception(kept); });
  }),
                         ContextError, message);
  require_usable(strategy);
  // What a replica throws by itself is the failure to tell.
  REQUIRE_THROWS_MATCHES(rethrow_on_0([](ReplicaContext&) -> Tensor { throw Special("by itself"); }), Special,
                         says("by itself"));
  require_usable(strategy);
}

TEST_CASE("an error in a replica function names replica and device", "[strategy][failure]") {
  Replicas strategy(3);
  try {
    strategy.run([](ReplicaContext& ctx) {
      if (ctx.replica_id_in_sync_group() == 1) static_cast<void>(Tensor::zeros({2, 3}).reshape({4}));
    });
    FAIL("nothing was thrown");
  } catch (const InvalidArgument& error) {
    CAPTURE(error.what());
    CHECK(error.context().replica == 1);
    CHECK(error.context().device == TestBackend::device(1).to_string());
    CHECK(error.context().operation == "Tensor::reshape");
    CHECK(error.context().operands.find("[2, 3]") != std::string::npos);
    CHECK_FALSE(error.context().hint.empty());
  }
  try {
    static_cast<void>(Tensor::zeros({2, 3}).reshape({4}));
    FAIL("nothing was thrown");
  } catch (const InvalidArgument& error) {
    CHECK(error.context().replica == -1);
  }
}

}  // namespace lockstep::test

#include <atomic>
#include <barrier>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// ReplicaContext::merge_call.
namespace lockstep::test {

namespace {

struct Tag {
  int value = 0;
};

const int kRounds = kSlowBuild ? 50 : 500;

/// At some depth below the replica function.
int merged_sum(ReplicaContext& ctx, int value, int depth) {
  if (depth > 0) return merged_sum(ctx, value, depth - 1);
  return ctx.merge_call(
      [](Strategy& s, const PerReplica<int>& v) {
        int total = 0;
        for (const int part : s.local_results(v)) total += part;
        return total;
      },
      value);
}

}  // namespace

TEST_CASE("default-merge-call: in the default context the function is called at once",
          "[strategy][merge_call]") {
  bool cross = false, has = true;
  const std::string text = get_replica_context()->merge_call(
      [&](Strategy& s, const std::string& part) {
        cross = in_cross_replica_context() && get_replica_context() == nullptr;
        has = has_strategy() || &s != &get_strategy();
        return "foo_" + part;
      },
      "bar");
  REQUIRE(text == "foo_bar");
  REQUIRE(cross);
  REQUIRE_FALSE(has);
  REQUIRE_FALSE(in_cross_replica_context());
}

TEST_CASE("the default strategy runs inside its merge function", "[strategy][merge_call]") {
  const bool inside = get_replica_context()->merge_call([](Strategy& s) {
    return bool(s.run([](ReplicaContext& ctx) {
      return get_replica_context() == &ctx && !in_cross_replica_context() &&
             ctx.all_reduce(ReduceOp::sum, 3.0f).item<float>() == 3.0f;
    }));
  });
  REQUIRE(inside);
}

TEST_CASE("P17 the merge function sees per-replica arguments in replica order", "[strategy][merge_call]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  std::vector<int> seen;
  const auto sizes = strategy.run([&](ReplicaContext& ctx) {
    return ctx.merge_call(
        [&](Strategy&, const PerReplica<int>& ids) {
          seen.assign(ids.begin(), ids.end());
          return ids.size();
        },
        ctx.replica_id_in_sync_group());
  });
  for (int i = 0; i < n; ++i) {
    REQUIRE(seen[static_cast<std::size_t>(i)] == i);
    REQUIRE(sizes[i] == n);
  }
}

TEST_CASE("the worked example: the sum of 3 and 4, plus the replica's own", "[strategy][merge_call]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const int v = 3 + ctx.replica_id_in_sync_group();
    return merged_sum(ctx, v, 5) + v;
  });
  REQUIRE((result[0] == 10 && result[1] == 11));
}

TEST_CASE("replica 0's merge function is called, once, on its thread", "[strategy][merge_call]") {
  Replicas strategy(3);
  std::atomic<int> calls = 0;
  const auto caller = strategy.run([&](ReplicaContext& ctx) {
    const int id = ctx.replica_id_in_sync_group();
    return ctx.merge_call([&calls, id](Strategy&) {
      ++calls;
      return id;
    });
  });
  REQUIRE(calls == 1);
  for (int i : {0, 1, 2}) REQUIRE(caller[i] == 0);
}

TEST_CASE("results of a merge call are handed back leaf by leaf", "[strategy][merge_call]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f));
  const Tensor plain = Tensor::scalar(8.0f);
  const auto result = strategy.run([&](ReplicaContext& ctx) {
    const auto [own, mirrored, here, var, same, text] = ctx.merge_call(
        [&](Strategy& s, PerReplica<Tensor> v, Variable& w) {
          return std::tuple{v,
                            s.extended().reduce_to(ReduceOp::sum, v, v),
                            s.extended().reduce_to(ReduceOp::sum, v, "CPU:0"),
                            w,
                            plain,
                            "text"};
        },
        Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group() + 1)), variable);
    static_assert(std::is_same_v<decltype(own), const Tensor> &&
                  std::is_same_v<decltype(mirrored), const Tensor> &&
                  std::is_same_v<decltype(text), const std::string>);
    const bool right = mirrored.device() == ctx.device() && here.item<float>() == 3.0f && var == variable &&
                       same.is_same_object(plain) && text == "text";
    return std::tuple{own.item<float>(), mirrored.item<float>(), right};
  });
  const auto& [own, mirrored, right] = result;
  REQUIRE((own[0] == 1.0f && own[1] == 2.0f));
  REQUIRE((mirrored[0] == 3.0f && mirrored[1] == 3.0f));
  REQUIRE((right[0] && right[1]));
}

TEST_CASE("arguments of a merge call are wrapped also where all replicas gave one object",
          "[strategy][merge_call]") {
  Replicas strategy(2);
  const Tensor captured = Tensor::scalar(1.0f);
  bool same = false;
  int inner = 0;
  strategy.run([&](ReplicaContext& ctx) {
    ctx.merge_call(
        [&](Strategy&, const PerReplica<Tensor>& object,
            const std::map<std::string, std::vector<PerReplica<Tag>>>& nest) {
          same = object.is_same_object() && object[1].is_same_object(captured);
          inner = nest.at("a")[0][1].value;
        },
        captured, std::map<std::string, std::vector<Tag>>{{"a", {Tag{ctx.replica_id_in_sync_group()}}}});
  });
  REQUIRE(same);
  REQUIRE(inner == 1);
}

TEST_CASE("several merge calls are matched by their order", "[strategy][merge_call]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto totals = strategy.run([](ReplicaContext& ctx) {
    int total = 0;
    for (int k = 0; k < kRounds; ++k) total += merged_sum(ctx, k % 7, 0);
    return total;
  });
  int expected = 0;
  for (int k = 0; k < kRounds; ++k) expected += n * (k % 7);
  for (int i = 0; i < n; ++i) REQUIRE(totals[i] == expected);
}

TEST_CASE("run works inside a merge function, again and again, and between other calls",
          "[strategy][merge_call]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto totals = strategy.run([](ReplicaContext& ctx) {
    int total = 0;
    for (int k = 0; k < kRounds; ++k) {
      total += ctx.merge_call([k](Strategy& s) {
        const auto ids = s.run([k](ReplicaContext& inner) {
          // Collectives, and merge calls, of the inner run.
          const Tensor sum = inner.all_reduce(ReduceOp::sum, inner.replica_id_in_sync_group() + k);
          return merged_sum(inner, sum.item<int>(), 0);
        });
        return ids[0];
      });
      total += ctx.all_reduce(ReduceOp::sum, 1).item<int>();
    }
    return total;
  });
  int expected = 0;
  for (int k = 0; k < kRounds; ++k) expected += n * (n * (n - 1) / 2 + n * k) + n;
  for (int i = 0; i < n; ++i) REQUIRE(totals[i] == expected);
}

TEST_CASE("runs nest several levels deep", "[strategy][merge_call]") {
  Replicas strategy(3);
  struct Level {
    static int run(Strategy& s, int depth) {
      if (depth == 0) return 1;
      const auto counts = s.run([depth](ReplicaContext& ctx) {
        return ctx.merge_call([depth](Strategy& inner) { return run(inner, depth - 1); });
      });
      return counts[0] + counts[1] + counts[2];
    }
  };
  REQUIRE(Level::run(strategy, 4) == 81);
}

TEST_CASE("an axis reduction inside a merge function runs on all replicas", "[strategy][merge_call]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const Tensor large = Tensor::ones({1 << 17}, DType::i64, ctx.device());
    return ctx
        .merge_call([](Strategy& s, const PerReplica<Tensor>& v) { return s.reduce(ReduceOp::sum, v, 0); },
                    large)
        .item<std::int64_t>();
  });
  REQUIRE((result[0] == 1 << 18 && result[1] == 1 << 18));
}

TEST_CASE("an exception of a nested run can be handled in the merge function", "[strategy][merge_call]") {
  Replicas strategy(3);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const int caught = ctx.merge_call([](Strategy& s) {
      try {
        s.run([](ReplicaContext& inner) {
          if (inner.replica_id_in_sync_group() == 2) throw std::runtime_error("inner");
          static_cast<void>(inner.all_reduce(ReduceOp::sum, 1));
        });
      } catch (const std::runtime_error& error) {
        return std::string(error.what()) == "inner" ? 1 : 2;
      }
      return 3;
    });
    return caught + ctx.all_reduce(ReduceOp::sum, 10).item<int>();
  });
  for (int i : {0, 1, 2}) REQUIRE(result[i] == 31);
  REQUIRE(strategy.last_failures().empty());
}

TEST_CASE("an exception of a nested run that the merge function lets pass reaches the caller",
          "[strategy][merge_call]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    ctx.merge_call([](Strategy& s) { s.run([] { throw std::runtime_error("inner"); }); });
  }),
                         std::runtime_error, says("inner"));
  REQUIRE(strategy.run([] { return 5; })[1] == 5);
}

TEST_CASE("arguments of other types on different replicas are refused", "[strategy][merge_call]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0)
      ctx.merge_call([](Strategy&, const PerReplica<int>&) {}, 1);
    else
      ctx.merge_call([](Strategy&, const PerReplica<float>&) {}, 1.0f);
  }),
                         InvalidArgument, says("merge_call", "replica 1", "other types", "replica 0"));
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    const std::vector<Tensor> list(static_cast<std::size_t>(ctx.replica_id_in_sync_group()),
                                   Tensor::scalar(1));
    ctx.merge_call([](Strategy&, const std::vector<PerReplica<Tensor>>&) {}, list);
  }),
                         InvalidArgument, says("merge_call", "replica 1", "length 1", "length 0"));
}

TEST_CASE("a saved context is refused in cross-replica context", "[strategy][merge_call]") {
  Replicas strategy(2);
  const auto past = says("on the context of replica 0 in cross-replica context", "past the merge");
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    ctx.merge_call([&](Strategy&) { ctx.merge_call([](Strategy&) {}); });
  }),
                         ContextError, past);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    ctx.merge_call([&](Strategy&) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1)); });
  }),
                         ContextError, past);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    ctx.merge_call([&](Strategy&) { static_cast<void>(ctx.all_gather(Tensor::zeros({1}), 0)); });
  }),
                         ContextError, past);
}

TEST_CASE("another replica's context is refused", "[strategy][merge_call]") {
  Replicas strategy(2);
  std::atomic<ReplicaContext*> first = nullptr;
  std::barrier both(2);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0) first = &ctx;
    both.arrive_and_wait();
    if (ctx.replica_id_in_sync_group() == 1) {
      const auto at_end = [&](ReplicaContext& other) {
        try {
          other.merge_call([](Strategy&) {});
        } catch (...) {
          both.arrive_and_wait();
          throw;
        }
      };
      at_end(*first);
    }
    both.arrive_and_wait();
  }),
                         ContextError, says("context of replica 0", "runs replica 1", "mismatching context"));
}

TEST_CASE("a context of another strategy, or of another thread, is refused", "[strategy][merge_call]") {
  Replicas s(1);
  OneDeviceStrategy s2(TestBackend::device());
  std::string message, from_thread;
  s.run([&](ReplicaContext& ctx) {
    std::thread([&] {
      try {
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
      } catch (const ContextError& error) {
        from_thread = error.what();
      }
      s2.run([&] {
        try {
          ctx.merge_call([](Strategy&) {});
        } catch (const ContextError& error) {
          message = error.what();
        }
      });
    }).join();
  });
  REQUIRE(message.find("a context of MirroredStrategy") != std::string::npos);
  REQUIRE(message.find("OneDeviceStrategy (mismatching strategies). Use the context") != std::string::npos);
  REQUIRE(from_thread.find("the default strategy (mismatching strategies). Use the context") !=
          std::string::npos);
}

TEST_CASE("arguments of other lengths or keys are refused on every replica, which may go on",
          "[strategy][merge_call]") {
  Replicas strategy(2);
  bool called = false;
  const auto result = strategy.run([&](ReplicaContext& ctx) {
    const int id = ctx.replica_id_in_sync_group();
    int refused = 0;
    try {
      ctx.merge_call([&](Strategy&, const std::vector<PerReplica<Tensor>>&) { called = true; },
                     std::vector<Tensor>(static_cast<std::size_t>(id), Tensor::scalar(1.0f)));
    } catch (const InvalidArgument& error) {
      refused +=
          says("merge_call", "replica 1 gave a vector of length 1, replica 0 one of length 0").match(error);
    }
    try {
      ctx.merge_call([&](Strategy&, const std::map<std::string, PerReplica<int>>&) { called = true; },
                     std::map<std::string, int>{{id == 0 ? "a" : "b", 1}});
    } catch (const InvalidArgument& error) {
      refused += says("merge_call", "replica 1 gave a map with other keys").match(error);
    }
    return refused + ctx.merge_call([](Strategy&) { return 10; });
  });
  REQUIRE((result[0] == 12 && result[1] == 12));
  REQUIRE_FALSE(called);
}

}  // namespace lockstep::test

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/world.hpp"

/// Replicas that disagree about a collective are told on every worker, with what each of the two has called;
/// afterwards the strategy works.
namespace lockstep::test {

namespace {

using Call = std::function<void(ReplicaContext&)>;

/// What `odd` on one replica and `usual` on all others throw.
Thrown disagreement(int odd_replica, const Call& usual, const Call& odd) {
  Strategy& strategy = world().strategy;
  return thrown_once(strategy, [&] {
    strategy.run(
        [&](ReplicaContext& ctx) { (ctx.replica_id_in_sync_group() == odd_replica ? odd : usual)(ctx); });
  });
}

/// The replicas whose place among the workers differs: the neighbour of the first, and the last.
std::vector<int> odd_replicas() {
  if (world().num_replicas == 1) return {};
  if (world().num_replicas == 2) return {1};
  return {1, world().last_replica()};
}

Call reduces(ReduceOp op, Tensor value) {
  return
      [op, value = std::move(value)](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(op, value)); };
}

Call gathers(const Shape& shape) {
  return [shape](ReplicaContext& ctx) { static_cast<void>(ctx.all_gather(Tensor::zeros(shape), 0)); };
}

Call both(Call first, Call second) {
  return [first = std::move(first), second = std::move(second)](ReplicaContext& ctx) {
    first(ctx);
    second(ctx);
  };
}

void check_names_both(const Thrown& thrown, int odd_replica, const std::string& usual,
                      const std::string& odd) {
  CHECK(thrown.is<CollectiveMismatch>());
  CHECK(thrown.names(odd_replica));
  CHECK(thrown.has(usual));
  CHECK(thrown.has(odd));
}

}  // namespace

TEST_CASE("different operators, and different operations", "[workers]") {
  for (const int replica : odd_replicas()) {
    CAPTURE(replica);
    const Tensor x = Tensor::zeros({3});
    check_names_both(disagreement(replica, reduces(ReduceOp::sum, x), reduces(ReduceOp::max, x)), replica,
                     "all_reduce(sum)", "all_reduce(max)");
    check_names_both(disagreement(replica, gathers({3}), reduces(ReduceOp::sum, x)), replica, "all_gather",
                     "all_reduce(sum)");
  }
}

TEST_CASE("different shapes", "[workers]") {
  for (const int replica : odd_replicas()) {
    CAPTURE(replica);
    check_names_both(disagreement(replica, reduces(ReduceOp::sum, Tensor::zeros({2, 3})),
                                  reduces(ReduceOp::sum, Tensor::zeros({3, 2}))),
                     replica, "[2, 3]", "[3, 2]");
    check_names_both(disagreement(replica, reduces(ReduceOp::sum, Tensor::zeros({100'000})),
                                  reduces(ReduceOp::sum, Tensor::zeros({100'001}))),
                     replica, "[100000]", "[100001]");
    const Thrown gathered = disagreement(replica, gathers({2, 3}), gathers({2, 4}));
    CHECK(gathered.is<InvalidArgument>());
    CHECK(gathered.names(replica));
    CHECK(gathered.has("[2, 3]"));
    CHECK(gathered.has("[2, 4]"));
  }
}

TEST_CASE("different dtypes", "[workers]") {
  for (const int replica : odd_replicas()) {
    CAPTURE(replica);
    check_names_both(disagreement(replica, reduces(ReduceOp::mean, Tensor::zeros({4}, DType::f32)),
                                  reduces(ReduceOp::mean, Tensor::zeros({4}, DType::i32))),
                     replica, "float32", "int32");
  }
}

TEST_CASE("different orders", "[workers]") {
  for (const int replica : odd_replicas()) {
    CAPTURE(replica);
    const Call reduce = reduces(ReduceOp::sum, Tensor::zeros({2})), gather = gathers({2});
    check_names_both(disagreement(replica, both(reduce, gather), both(gather, reduce)), replica,
                     "all_reduce(sum)", "all_gather");
  }
}

TEST_CASE("different structures", "[workers]") {
  const Tensor x = Tensor::zeros({2});
  for (const int replica : odd_replicas()) {
    CAPTURE(replica);
    const Thrown thrown = disagreement(
        replica,
        [&](ReplicaContext& ctx) {
          static_cast<void>(ctx.all_reduce(ReduceOp::sum, std::vector{x, x}));
        },
        [&](ReplicaContext& ctx) {
          static_cast<void>(ctx.all_reduce(ReduceOp::sum, std::vector{x, x, x}));
        });
    CHECK(thrown.is<CollectiveMismatch>());
    CHECK(thrown.names(replica));
  }
}

TEST_CASE("a merge call beside a collective", "[workers]") {
  const World& w = world();
  for (const int replica : odd_replicas()) {
    CAPTURE(replica);
    const Thrown thrown = disagreement(replica, reduces(ReduceOp::sum, Tensor::zeros({2})),
                                       [](ReplicaContext& ctx) { ctx.merge_call([](Strategy&) {}); });
    // Merge calls are each worker's own: alone on its worker, the replica makes one and ends without the
    // others.
    CHECK(thrown.is<Error>());
    if (w.num_local_replicas > 1 && w.is_own(replica)) CHECK(thrown.is<CollectiveMismatch>());
    CHECK(thrown.names(replica));
  }
}

TEST_CASE("a replica that returns without the others' call", "[workers]") {
  const World& w = world();
  for (const int replica : odd_replicas()) {
    CAPTURE(replica);
    const Call reduce = reduces(ReduceOp::sum, Tensor::zeros({2}));
    const Thrown thrown = disagreement(replica, both(reduce, reduce), reduce);
    CHECK(thrown.is<Error>());
    if (w.num_workers == 1) CHECK(thrown.is<ContextError>());
    CHECK(thrown.names(replica));
    CHECK(thrown.has("all_reduce(sum)"));
  }
}

TEST_CASE("a call of one worker that the others do not make", "[workers]") {
  const World& w = world();
  if (w.num_workers == 1) return;
  const auto own = values([](int replica) { return Tensor::scalar(replica); });
  const Thrown thrown = thrown_once(w.strategy, [&] {
    if (w.worker == w.num_workers - 1)
      static_cast<void>(w.strategy.gather(values([](int) { return Tensor::zeros({1}); }), 0));
    else
      static_cast<void>(w.strategy.reduce(ReduceOp::sum, own));
  });
  check_names_both(thrown, w.last_replica(), "reduce", "gather");
}

TEST_CASE("a disagreement that the replicas handle leaves them in step", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  const auto sums = w.strategy.run([&](ReplicaContext& ctx) {
    const std::int64_t size = ctx.replica_id_in_sync_group() == w.last_replica() ? 2 : 1;
    bool is_told = false;
    try {
      static_cast<void>(ctx.all_reduce(ReduceOp::sum, Tensor::zeros({size})));
    } catch (const CollectiveMismatch&) {
      is_told = true;
    }
    return ctx.all_reduce(ReduceOp::sum, is_told ? 1 : 0).item<int>();
  });
  for (const int sum : sums) CHECK(sum == w.num_replicas);
  CHECK(is_usable(w.strategy));
}

}  // namespace lockstep::test

#pragma once

#include <catch2/catch_test_macros.hpp>

#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/strategy.hpp>

namespace lockstep::test {

/// Requires that the strategy works.
inline void require_usable(Strategy& strategy) {
  const int n = strategy.num_replicas_in_sync();
  const auto sums = strategy.run([](ReplicaContext& ctx) {
    const int sum = ctx.all_reduce(ReduceOp::sum, 1).item<int>();
    return sum + ctx.merge_call([](Strategy&) { return 100; });
  });
  for (int i = 0; i < n; ++i) REQUIRE(sums[i] == n + 100);
  REQUIRE(strategy.last_failures().empty());
}

inline int replica_id_of(const ReplicaContext& ctx) { return ctx.replica_id_in_sync_group(); }

}  // namespace lockstep::test

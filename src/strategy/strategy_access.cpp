#include "strategy/strategy_access.hpp"

#include <lockstep/strategy/detail/cross_replica.hpp>

#include "strategy/runtime/cross_replica_reduce.hpp"
#include "strategy/runtime/strategy_state.hpp"

namespace lockstep::detail {

RecycledVector<RecycledVector<Tensor>> reduce_all(Strategy& strategy, ReduceOp op,
                                                  std::span<const ReduceTo> reductions,
                                                  const CommunicationOptions& options) {
  RecycledVector<RecycledVector<Tensor>> results;
  call_serialised(strategy, "reduce_to", [&] {
    results =
        CrossReplicaReduce(StrategyState::of(strategy), op, "reduce_to", options).to_devices(reductions);
  });
  return results;
}

void for_each_replica(Strategy& strategy, std::int64_t bytes, FunctionRef<void(int)> fn) {
  StrategyState::of(strategy).executor().for_each(bytes, fn);
}

}  // namespace lockstep::detail

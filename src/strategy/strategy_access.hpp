#pragma once

#include <cstdint>
#include <span>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/strategy.hpp>

/// The door to strategies for optimizers.
namespace lockstep::detail {

/// A value to reduce, and the devices of its result.
struct ReduceTo {
  const ReduceValue* value;
  std::span<const Device> devices;
};

/// StrategyExtended::batch_reduce_to without its std::vectors.
/// @return [k][i]: of reductions[k], on its devices[i].
RecycledVector<RecycledVector<Tensor>> reduce_all(Strategy& strategy, ReduceOp op,
                                                  std::span<const ReduceTo> reductions,
                                                  const CommunicationOptions& options);

/// Calls fn(i) for each local replica i, all at the same time on the replicas' threads where `bytes` to touch
/// for each are worth it, else in order on this one. fn must not wait for another replica.
/// @pre called within call_serialised, or in a merge function.
void for_each_replica(Strategy& strategy, std::int64_t bytes, FunctionRef<void(int)> fn);

}  // namespace lockstep::detail

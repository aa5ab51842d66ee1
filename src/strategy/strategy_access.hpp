#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/strategy.hpp>

/// The door to strategies for optimizers and checkpoints.
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

/// The variables' components may differ from now on: the strategy's collectives throw CollectiveAborted, with
/// the cause.
void abandon(Strategy& strategy, const std::string& cause) noexcept;

/// The id of local replica 0.
int first_replica(const Strategy& strategy) noexcept;
/// Whether several processes have the strategy's replicas.
bool has_workers(const Strategy& strategy) noexcept;
/// Calls fn in the chief's process alone, whose error all workers throw. All workers make the call.
/// @param what  static, as in what follows. @pre has_workers
void on_chief(Strategy& strategy, std::string_view what, FunctionRef<void()> fn);
/// Calls fn in every worker's process; all workers throw, or none. @pre has_workers
void on_all_workers(Strategy& strategy, std::string_view what, FunctionRef<void()> fn);
/// What `number` gives in the chief's process. @pre has_workers
std::int64_t from_chief(Strategy& strategy, std::string_view what, FunctionRef<std::int64_t()> number);
/// What `own` gives in every worker's process, by worker; where this process works alone, what it gives.
/// Where it throws in one, the others throw CollectiveAborted with its text.
std::vector<std::string> gather_texts(Strategy& strategy, std::string_view what,
                                      FunctionRef<std::string()> own);

}  // namespace lockstep::detail

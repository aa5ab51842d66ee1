#include "strategy/strategy_access.hpp"

#include <lockstep/strategy/detail/cross_replica.hpp>

#include "cluster/worker_group.hpp"
#include "strategy/context/default_strategy.hpp"
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

void abandon(Strategy& strategy, const std::string& cause) noexcept {
  if (&strategy == &default_strategy()) return;
  for (ReplicaGroup& group : StrategyState::of(strategy).groups()) group.abort(cause);
}

int first_replica(const Strategy& strategy) noexcept { return StrategyState::of(strategy).first_replica(); }

bool has_workers(const Strategy& strategy) noexcept {
  return &strategy != &default_strategy() && StrategyState::of(strategy).workers() != nullptr;
}

void on_all_workers(Strategy& strategy, std::string_view what, FunctionRef<void()> fn) {
  call_serialised(strategy, what, [&] {
    StrategyState& state = StrategyState::of(strategy);
    std::exception_ptr error;
    try {
      fn();
    } catch (...) {
      error = std::current_exception();
    }
    state.meet_workers(what, [&](WorkerMeeting& meeting) {
      if (error) meeting.refuse(what, error, state.options().timeout);
      meeting.meet(what, {}, state.options().timeout);
    });
  });
}

void on_chief(Strategy& strategy, std::string_view what, FunctionRef<void()> fn) {
  on_all_workers(strategy, what, [&] {
    if (strategy.extended().should_checkpoint()) fn();
  });
}

std::vector<std::string> gather_texts(Strategy& strategy, std::string_view what,
                                      FunctionRef<std::string()> own) {
  if (!has_workers(strategy)) return {own()};
  std::vector<std::string> texts;
  call_serialised(strategy, what, [&] {
    StrategyState& state = StrategyState::of(strategy);
    const std::string text = own();
    state.meet_workers(what, [&](WorkerMeeting& meeting) {
      meeting.meet(what, std::as_bytes(std::span(text)), state.options().timeout);
      for (int w = 0; w < meeting.num_workers(); ++w) {
        const auto theirs = meeting.message(w);
        texts.emplace_back(reinterpret_cast<const char*>(theirs.data()), theirs.size());
      }
    });
  });
  return texts;
}

std::int64_t from_chief(Strategy& strategy, std::string_view what, FunctionRef<std::int64_t()> number) {
  std::int64_t chosen = 0;
  call_serialised(strategy, what, [&] {
    StrategyState& state = StrategyState::of(strategy);
    const std::int64_t own = strategy.extended().should_checkpoint() ? number() : 0;
    state.meet_workers(what, [&](WorkerMeeting& meeting) {
      meeting.meet(what, std::as_bytes(std::span(&own, 1)), state.options().timeout);
      chosen = ByteReader(meeting.message(0)).get<std::int64_t>();
    });
  });
  return chosen;
}

}  // namespace lockstep::detail

#include <lockstep/strategy/function.hpp>

#include "strategy/function/function_state.hpp"
#include "strategy/runtime/strategy_state.hpp"

namespace lockstep::detail {

FunctionHandle::FunctionHandle(Strategy& strategy, const FunctionOptions& options)
    : state_(std::make_shared<FunctionState>(strategy, options)) {
  StrategyState::of(strategy).add(state_);
}

int FunctionHandle::num_local_replicas() const {
  return StrategyState::of(state_->strategy()).num_local_replicas();
}

void FunctionHandle::call(FunctionCall& call) const { state_->call(call); }
void FunctionHandle::clear() const { state_->clear(); }
int FunctionHandle::num_traces() const { return state_->num_traces(); }

}  // namespace lockstep::detail

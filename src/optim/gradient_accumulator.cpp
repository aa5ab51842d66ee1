#include <algorithm>
#include <mutex>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/optim/gradient_accumulator.hpp>
#include <lockstep/strategy/context.hpp>

#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "optim/gradients.hpp"
#include "strategy/variable/variable_access.hpp"

namespace lockstep::optim {

using detail::GradientPart;
using detail::VariableAccess;
using List = std::vector<GradientAndVariable>;

namespace {

constexpr std::string_view kAdd = "GradientAccumulator::add";

/// The device on which a variable's gradients are added: the replica's component's, else the replica's.
const Device& device_for(const Variable& variable, const ReplicaContext& context) {
  const std::vector<Device>& devices = VariableAccess::devices(variable);
  if (detail::is_one_per_replica(variable)) return devices[static_cast<std::size_t>(context.local_index())];
  return has_strategy() ? context.device() : devices[0];
}

/// A gradient in the form in which it is added: dense, in the accumulator's dtype.
Tensor addend(const GradientPart& part, const Device& device) {
  const Tensor dense = part.slices ? part.slices->to_dense() : part.tensor;
  return dense.to(device).cast(accumulator_dtype(dense.dtype()));
}

}  // namespace

GradientAccumulator::GradientAccumulator(int num_steps) : num_steps_(num_steps) {
  LOCKSTEP_EXPECTS(num_steps >= 1, InvalidArgument, "GradientAccumulator: num_steps is ", num_steps,
                   ". It must be at least 1.");
}

/// A replica's part in a trace, which is that of one of the num_steps steps. The sums of work that is
/// captured must be where the graph finds them.
class GradientAccumulator::TracedPart final : public detail::HostPart {
 public:
  TracedPart(Part& part, bool is_captured) : part_(part), is_captured_(is_captured), before_(state()) {}

  /// A call of `add` is over.
  void note() { after_ = state(); }
  bool fits() const override {
    if (part_.num_added != before_.num_added) return false;
    if (!is_captured_) return true;
    return std::equal(part_.sums.begin(), part_.sums.end(), before_.sums.begin(), before_.sums.end(),
                      [](const Sum& sum, const SumState& before) { return state_of(sum) == before; });
  }
  void commit() noexcept override { set(after_); }
  void restore() noexcept override { set(before_); }

 private:
  struct SumState {
    const void* data;
    bool is_nothing;
    bool operator==(const SumState&) const = default;
  };
  struct State {
    int num_added = 0;
    std::vector<SumState> sums;
  };

  static SumState state_of(const Sum& sum) {
    return {sum.tensor.defined() ? sum.tensor.view().data : nullptr, sum.is_nothing};
  }
  State state() const {
    State state{part_.num_added, {}};
    for (const Sum& sum : part_.sums) state.sums.push_back(state_of(sum));
    return state;
  }
  // A sum that has moved was nothing before.
  void set(const State& state) noexcept {
    part_.num_added = state.num_added;
    for (std::size_t k = 0; k < part_.sums.size(); ++k)
      part_.sums[k].is_nothing = k >= state.sums.size() || state.sums[k].is_nothing;
  }

  Part& part_;
  const bool is_captured_;
  const State before_;
  State after_;
};

GradientAccumulator::TracedPart* GradientAccumulator::traced_part(Part& part, int replica) {
  detail::TraceRecorder* const recorder = detail::TraceScope::recorder();
  if (recorder == nullptr) return nullptr;
  return &static_cast<TracedPart&>(recorder->part(this, replica, [&]() -> std::unique_ptr<detail::HostPart> {
    return std::make_unique<TracedPart>(part, recorder->captures());
  }));
}

GradientAccumulator::Part& GradientAccumulator::part_of(int replica) {
  const std::lock_guard lock(mutex_);
  return parts_[replica];
}

std::optional<List> GradientAccumulator::add(const List& gradients) {
  const ReplicaContext* const context = get_replica_context();
  LOCKSTEP_EXPECTS(context != nullptr, ContextError, kAdd,
                   " in cross-replica context. Call it in the replica function, before apply_gradients.");
  if (gradients.empty()) return {};
  const int replica = context->replica_id_in_sync_group();
  Part& part = part_of(replica);
  TracedPart* const traced = traced_part(part, replica);

  // All errors come before anything is added.
  std::vector<Variable> variables;
  for (const GradientAndVariable& pair : gradients) variables.push_back(pair.variable);
  detail::check_variables(variables, kAdd);
  const bool same =
      std::equal(part.sums.begin(), part.sums.end(), variables.begin(), variables.end(),
                 [](const Sum& sum, const Variable& variable) { return sum.variable == variable; });
  LOCKSTEP_EXPECTS(same || part.num_added == 0, InvalidArgument, kAdd, " on replica ", replica, ": the ",
                   variables.size(), " variables are not the ", part.sums.size(),
                   " of the first of these steps. Give the same variables in the same order in all ",
                   num_steps_, " steps.");
  std::vector<Tensor> addends;
  for (const auto& [gradient, variable] : gradients) {
    const GradientPart mine = detail::part_in_replica(gradient, replica, {kAdd, variable, replica});
    addends.push_back(detail::is_nothing(mine) ? Tensor() : addend(mine, device_for(variable, *context)));
  }

  // Memory is taken before anything is added, too.
  const bool is_last = part.num_added + 1 == num_steps_;
  std::optional<List> total;
  if (is_last) total.emplace();
  std::vector<Sum> sums;
  for (std::size_t k = 0; k < addends.size(); ++k) {
    const bool is_held = same && part.sums[k].tensor.defined() && part.sums[k].tensor.is_shared();
    Sum& sum = sums.emplace_back(same ? part.sums[k] : Sum{variables[k], Tensor(), true});
    Tensor& added = addends[k];
    if (added.defined() && !sum.is_nothing) added = added.to(sum.tensor.device()).contiguous();
    // The caller may still hold the last total.
    if (added.defined() && sum.is_nothing && (!sum.tensor.defined() || is_held))
      sum.tensor = Tensor::empty(added.shape(), added.dtype(), added.device());
    if (!is_last) continue;
    if (sum.is_nothing && !added.defined()) {
      total->push_back({std::nullopt, sum.variable});
    } else if (sum.tensor.dtype() == sum.variable.dtype()) {
      total->push_back({sum.tensor, sum.variable});
    } else {
      const Tensor whole = !added.defined() ? sum.tensor : sum.is_nothing ? added : sum.tensor + added;
      total->push_back({whole.cast(sum.variable.dtype()), sum.variable});
      added = Tensor();
    }
  }

  std::swap(part.sums, sums);
  for (std::size_t k = 0; k < addends.size(); ++k) {
    Sum& sum = part.sums[k];
    if (!addends[k].defined()) continue;
    if (std::exchange(sum.is_nothing, false))
      sum.tensor.copy_(addends[k]);
    else
      sum.tensor.add_(addends[k]);
  }
  if (is_last)
    for (Sum& sum : part.sums) sum.is_nothing = true;
  part.num_added = is_last ? 0 : part.num_added + 1;
  if (traced != nullptr) traced->note();
  return total;
}

void GradientAccumulator::reset() {
  LOCKSTEP_EXPECTS(
      !has_strategy() || get_replica_context() == nullptr, ContextError,
      "GradientAccumulator::reset in a replica function, while others may add. Call it outside run.");
  const std::lock_guard lock(mutex_);
  for (auto& [replica, part] : parts_) {
    part.num_added = 0;
    for (Sum& sum : part.sums) sum.is_nothing = true;
  }
}

}  // namespace lockstep::optim

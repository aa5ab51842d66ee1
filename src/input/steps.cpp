#include "input/steps.hpp"

#include <algorithm>

#include <lockstep/error.hpp>
#include <lockstep/strategy/context.hpp>

#include "input/splitting.hpp"

namespace lockstep::detail {

std::optional<Step> StepPass::next() {
  LOCKSTEP_EXPECTS(
      !has_strategy() || in_cross_replica_context(), ContextError,
      "DistributedIterator::next: called in a replica function. Fetch outside, and pass the value to run.");
  if (ended_) return std::nullopt;

  std::vector<std::optional<FlatElement>> elements;
  for (std::size_t replica = 0; replica < plan_->devices.size(); ++replica)
    elements.push_back(elements_[replica % elements_.size()]->next());
  const auto has_element = [](const auto& element) { return element.has_value(); };
  const auto present = std::find_if(elements.begin(), elements.end(), has_element);
  const bool is_whole = std::all_of(elements.begin(), elements.end(), has_element);
  ended_ = present == elements.end() || (!is_whole && !plan_->fills_with_empty);
  if (ended_) return std::nullopt;

  const FlatElement empty = is_whole ? FlatElement() : empty_like(**present);
  Step step;
  for (std::size_t replica = 0; replica < elements.size(); ++replica) {
    FlatElement& element = step.emplace_back(elements[replica] ? std::move(*elements[replica]) : empty);
    if (!plan_->fetch_to_device) continue;
    for (Tensor& leaf : element) leaf = leaf.to(plan_->devices[replica]);
  }
  return step;
}

void raise_end_of_input(std::int64_t num_steps) {
  raise<OutOfRange>(
      {__FILE__, __LINE__, __func__},
      concat("DistributedIterator::next: the dataset has ended after ", num_steps,
             " steps. Take another iterator() for another pass; next_optional() gives nothing at the end."));
}

}  // namespace lockstep::detail

#include "input/steps.hpp"

#include <algorithm>

#include <lockstep/error.hpp>
#include <lockstep/strategy/context.hpp>

namespace lockstep::detail {

DealPass::DealPass(PartPasses parts, std::shared_ptr<const StepPlan> plan)
    : parts_(std::move(parts)), plan_(std::move(plan)) {
  for (const Device& device : plan_->devices) fetchers_.push_back(make_fetcher(device, plan_->num_ahead));
}

std::optional<FetchedStep> DealPass::next() {
  if (ended_) return std::nullopt;
  std::vector<std::optional<Part>> parts;
  for (std::size_t replica = 0; replica < fetchers_.size(); ++replica)
    parts.push_back(parts_[replica % parts_.size()]->next());
  const auto has_part = [](const auto& part) { return part.has_value(); };
  const auto present = std::find_if(parts.begin(), parts.end(), has_part);
  const bool is_whole = std::all_of(parts.begin(), parts.end(), has_part);
  ended_ = present == parts.end() || (!is_whole && !plan_->fills_with_empty);
  if (ended_) return std::nullopt;

  const Part empty = is_whole ? Part() : empty_like(**present);
  FetchedStep step;
  for (std::size_t replica = 0; replica < parts.size(); ++replica)
    step.push_back(fetchers_[replica]->fetch(parts[replica] ? *parts[replica] : empty));
  return step;
}

ReceivePass::ReceivePass(std::function<PartPasses()> open, std::shared_ptr<const StepPlan> plan)
    : plan_(std::move(plan)) {
  auto deal = [open = std::move(open), of = plan_] { return std::make_unique<DealPass>(open(), of); };
  if (plan_->num_ahead == 0) {
    steps_ = deal();
    return;
  }
  // With one more the thread need not wait for the next call before it goes on.
  auto ahead =
      std::make_unique<PrefetchPass<FetchedStep>>(std::move(deal), std::int64_t{plan_->num_ahead} + 1);
  ahead_ = ahead.get();
  steps_ = std::move(ahead);
}

std::optional<Step> ReceivePass::next() {
  LOCKSTEP_EXPECTS(
      !has_strategy() || in_cross_replica_context(), ContextError,
      "DistributedIterator::next: called in a replica function. Fetch outside, and pass the value to run.");
  const std::int64_t waits_before = ahead_ ? ahead_->num_waits() : 0;
  std::optional<FetchedStep> fetched = steps_->next();
  if (!fetched) return std::nullopt;
  const bool was_ready = ahead_ && ahead_->num_waits() == waits_before;
  const auto is_idle = [](const Device& device) { return current_stream(device).is_complete(); };
  if (!was_ready && std::any_of(plan_->devices.begin(), plan_->devices.end(), is_idle)) ++num_waits_;
  Step step;
  for (FetchedElement& element : *fetched) step.push_back(receive(std::move(element)));
  return step;
}

void raise_end_of_input(std::int64_t num_steps) {
  raise<OutOfRange>(
      {__FILE__, __LINE__, __func__},
      concat("DistributedIterator::next: the dataset has ended after ", num_steps,
             " steps. Take another iterator() for another pass; next_optional() gives nothing at the end."));
}

}  // namespace lockstep::detail

#include "input/distribution/steps.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <stop_token>

#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>

#include "detail/expects.hpp"
#include "input/distribution/saved_pass.hpp"
#include "input/state/sealed_state.hpp"
#include "input/statistics/measured_iterator.hpp"
#include "trace/span.hpp"

namespace lockstep::detail {

void DealIterator::open() {
  fetchers_.clear();  // of an attempt that failed
  for (const Device& device : plan_->devices) fetchers_.push_back(make_fetcher(device, plan_->num_ahead));
  parts_ = open_();
  open_ = nullptr;
}

std::vector<std::optional<Part>> DealIterator::take_parts() {
  std::exception_ptr error;
  while (taken_.size() < fetchers_.size()) {
    try {
      taken_.push_back(parts_[taken_.size() % parts_.size()]->next());
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      if (exchange_) taken_.clear();  // all workers drop the step
      if (parts_.size() == 1) throw;  // otherwise the next step continues with the parts that were taken
      if (!error) error = std::current_exception();
      taken_.emplace_back();  // the other replicas' iterators advance too, to stay in step
    }
  }
  std::vector<std::optional<Part>> parts = std::exchange(taken_, {});
  if (error) std::rethrow_exception(error);
  return parts;
}

WorkerStep DealIterator::take(Elements& elements) {
  const std::vector<std::optional<Part>> parts = take_parts();
  WorkerStep own{.is_whole = true};
  elements.resize(parts.size());
  std::size_t first = 0;
  for (std::size_t replica = 0; replica < parts.size(); ++replica) {
    const std::optional<Part>& part = parts[replica];
    own.is_whole = own.is_whole && part;
    if (!part) continue;
    if (!own.has_data) {
      own.leaves = leaves_of(*part->front().batch);
      first = replica;
    } else {
      check_same_leaves("replica", first, own.leaves, replica, leaves_of(*part->front().batch));
    }
    own.has_data = true;
    elements[replica] = fetchers_[replica]->fetch(*part);
  }
  own.knows_structure = own.has_data || !plan_->knows_structure || plan_->knows_structure();
  return own;
}

std::vector<WorkerStep> DealIterator::exchange(const WorkerStep& own) {
  if (!exchange_) return {own};
  // A pass that is dropped must not wait for another worker.
  const std::stop_callback leave(current_stop_token(), [this] { exchange_->leave(); });
  return from_messages(exchange_->all_gather(to_message(own)));
}

void DealIterator::end() noexcept {
  ended_ = true;
  if (exchange_) exchange_->leave();
}

std::optional<FetchedStep> DealIterator::next() {
  FetchedStep step;
  try {
    std::optional<std::vector<FetchedElement>> elements = make_step();
    if (!elements) return std::nullopt;
    step.outcome.element = std::move(*elements);
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    step.outcome.error = std::current_exception();
  }
  for (const auto& part : parts_) step.seen.push_back(part->seen_after_step(taken_.empty()));
  return step;
}

void DealIterator::set_seen(const std::vector<SeenBatches>& seen) {
  for (std::size_t i = 0; i < seen.size(); ++i) parts_[i]->set_seen(seen[i]);
}

void DealIterator::transfer(PassState& state) {
  if (open_) open();
  std::vector<std::string> texts;
  if (state.is_saving()) {
    PassState own;
    std::size_t num_datasets = parts_.size();
    own(num_datasets);
    for (const auto& part : parts_) own(*part);
    texts.push_back(own.take());
  }
  state(texts);
  if (state.is_saving()) return;
  for (const std::string& text : texts) {
    PassState own(text, state);
    std::size_t num_datasets = 0;
    own(num_datasets);
    LOCKSTEP_EXPECTS(num_datasets == parts_.size(), InvalidArgument, kRestoreState, ": the state is of ",
                     num_datasets, " datasets on a worker, and this strategy has ", parts_.size(),
                     ". Restore it with as many datasets.");
    for (const auto& part : parts_) own(*part);
    own.expect_end();
  }
}

std::optional<std::vector<FetchedElement>> DealIterator::make_step() {
  if (ended_) return std::nullopt;
  const Span span(SpanKind::input, "make a step");
  Elements elements;
  WorkerStep own;
  std::exception_ptr error;
  try {
    if (open_) open();
    own = take(elements);
  } catch (const Stopped&) {
    throw;
  } catch (const std::exception& exception) {
    error = std::current_exception();
    own.error = exception.what();
  } catch (...) {
    error = std::current_exception();
    own.error = "an exception that is not a std::exception.";
  }
  std::vector<WorkerStep> workers;
  try {
    workers = exchange(own);
  } catch (...) {
    end();
    if (!error) error = std::current_exception();
  }
  if (open_) end();  // its iterators could not be opened
  if (error) std::rethrow_exception(error);
  const std::optional<std::vector<LeafType>> leaves = agree_on_leaves(workers, plan_->fills_with_empty);
  if (!leaves) {
    end();
    return std::nullopt;
  }

  const Part empty = own.is_whole ? Part() : empty_part(*leaves);
  std::vector<FetchedElement> step;
  for (std::size_t replica = 0; replica < elements.size(); ++replica)
    step.push_back(elements[replica] ? std::move(*elements[replica]) : fetchers_[replica]->fetch(empty));
  return step;
}

ReceiveIterator::ReceiveIterator(std::function<PartIterators()> open, std::shared_ptr<const StepPlan> plan,
                                 const PassNumbers& numbers, std::shared_ptr<PassStatistics> statistics)
    : plan_(std::move(plan)),
      numbers_(numbers),
      statistics_(std::move(statistics)),
      steps_(make_steps(std::move(open)), "DistributedIterator::next") {}

std::unique_ptr<Iterator<FetchedStep>> ReceiveIterator::make_steps(std::function<PartIterators()> open) {
  const auto with_counts = [this](std::unique_ptr<Iterator<FetchedStep>> steps,
                                  std::string_view what) -> std::unique_ptr<Iterator<FetchedStep>> {
    if (!statistics_) return steps;
    return std::make_unique<MeasuredIterator<FetchedStep>>(std::move(steps), statistics_,
                                                           statistics_->of(what));
  };
  auto deal = std::make_unique<DealIterator>(std::move(open), plan_,
                                             plan_->open_exchange ? plan_->open_exchange() : nullptr);
  deal_ = deal.get();
  if (plan_->num_ahead == 0) return with_counts(std::move(deal), "make a step");
  auto input = std::make_shared<std::unique_ptr<Iterator<FetchedStep>>>();
  // With one more element in its buffer the thread need not wait for the next call before it continues.
  auto ahead = std::make_unique<PrefetchIterator<FetchedStep>>([input] { return std::move(*input); },
                                                               std::int64_t{plan_->num_ahead} + 1);
  ahead_ = ahead.get();
  auto steps = with_counts(std::move(ahead), "steps made ahead");
  *input = with_counts(std::move(deal), "make a step");
  return steps;
}

std::optional<Step> ReceiveIterator::next() {
  constexpr std::string_view kNext = "DistributedIterator::next";
  if (plan_->check_caller) plan_->check_caller(kNext);
  const Span span(SpanKind::input, kNext);
  const std::int64_t waits_before = ahead_ ? ahead_->num_waits() : 0;
  std::optional<FetchedStep> fetched = steps_.next();
  if (!fetched) return std::nullopt;
  deal_->set_seen(fetched->seen);
  std::vector<FetchedElement> elements = take_outcome(std::move(fetched->outcome));
  const bool was_ready = ahead_ && ahead_->num_waits() == waits_before;
  const auto is_idle = [](const Device& device) { return current_stream(device).is_complete(); };
  if (!was_ready && std::any_of(plan_->devices.begin(), plan_->devices.end(), is_idle)) ++num_waits_;
  Step step;
  for (FetchedElement& element : elements) step.push_back(receive(std::move(element)));
  ++numbers_.num_taken;
  return step;
}

void ReceiveIterator::transfer(PassState& state) { steps_.transfer(state); }

InputStatistics ReceiveIterator::statistics() const {
  return statistics_of(statistics_, "DistributedIterator::statistics");
}

IteratorState ReceiveIterator::save() {
  if (plan_->check_caller) plan_->check_caller("DistributedIterator::save_state");
  return save_of_workers(*this, *plan_);
}

}  // namespace lockstep::detail

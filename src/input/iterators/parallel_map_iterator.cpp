#include "input/iterators/parallel_map_iterator.hpp"

#include <algorithm>
#include <utility>

#include "detail/concat.hpp"
#include "detail/start_thread.hpp"
#include "input/iterators/function_iterators.hpp"
#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

ParallelMapIterator::~ParallelMapIterator() {
  stop_.request();
  for (std::thread& thread : threads_) thread.join();
}

void ParallelMapIterator::start() {
  const auto num_threads = static_cast<std::size_t>(num_threads_.num_threads());
  threads_.reserve(num_threads);
  if (threads_.empty()) {  // now: a thread has nobody to tell of a lack of memory
    const std::scoped_lock lock(mutex_);
    finished_.reserve(static_cast<std::size_t>(num_threads_.most()));
  }
  while (threads_.size() < num_threads)
    threads_.push_back(
        start_thread(concat(what_, ": thread ", threads_.size(), " of ", num_threads),
                     [this, number = static_cast<std::int64_t>(threads_.size())] { work(number); }));
}

std::vector<ParallelMapIterator::Finished>::iterator ParallelMapIterator::find_next() {
  if (!options_.deterministic) return finished_.begin();
  return std::find_if(finished_.begin(), finished_.end(),
                      [this](const Finished& finished) { return finished.index == num_given_; });
}

std::optional<FlatElement> ParallelMapIterator::next() {
  if (threads_.empty()) stop_.follow_owner();
  start();
  std::unique_lock lock(mutex_);
  const auto can_go_on = [this] {
    return find_next() != finished_.end() || (ended_ && num_given_ == num_taken_);
  };
  const bool was_ready = can_go_on();
  is_short_ = false;
  is_waiting_ = !was_ready;
  note_shortage();
  const SpanWait waits;
  const bool has_stopped = !has_element_.wait(lock, current_stop_token(), can_go_on);
  is_waiting_ = false;
  if (has_stopped) throw Stopped();
  const auto next = find_next();
  if (next == finished_.end()) return stop_.end<FlatElement>();
  Outcome<FlatElement> outcome = std::move(next->outcome);
  finished_.erase(next);
  ++num_given_;
  const std::int64_t num_threads = num_threads_.num_threads();
  num_threads_.count(is_short_, was_ready);
  const bool are_more = num_threads_.num_threads() > num_threads;
  lock.unlock();
  has_room_.notify_one();
  if (are_more) is_needed_.notify_all();
  return take_outcome(std::move(outcome));
}

std::optional<ParallelMapIterator::Job> ParallelMapIterator::take() {
  const std::scoped_lock turn(input_mutex_);
  {
    std::unique_lock lock(mutex_);
    const auto has_room = [this] {
      return ended_ || (!is_paused_ && num_taken_ - num_given_ < num_threads_.num_threads());
    };
    if (!has_room_.wait(lock, stop_.token(), has_room) || ended_) return std::nullopt;
    is_taking_ = true;
  }
  std::optional<Outcome<FlatElement>> input;
  try {
    if (!input_) input_ = pipeline_->open(key_);
    if (std::optional<FlatElement> element = input_->next())
      input = Outcome<FlatElement>{std::move(*element), nullptr};
  } catch (const Stopped&) {
  } catch (...) {
    input = Outcome<FlatElement>{{}, std::current_exception()};
  }
  const std::scoped_lock lock(mutex_);
  is_taking_ = false;
  ended_ = !input || !input_;  // null input_: it could not be opened
  if (input) {
    ++num_calls_;
    note_shortage();
    return Job{num_taken_++, std::move(*input)};
  }
  has_element_.notify_one();
  is_needed_.notify_all();
  return std::nullopt;
}

void ParallelMapIterator::transfer(PassState& state) {
  std::unique_lock lock(mutex_);
  const Pause pause(is_paused_, has_room_);
  const auto is_idle = [this] {
    return !is_taking_ && static_cast<std::int64_t>(finished_.size()) == num_taken_ - num_given_;
  };
  has_element_.wait(lock, is_idle);
  std::ranges::sort(finished_, {}, &Finished::index);
  state(num_taken_, num_given_, ended_, finished_);
  for (std::size_t i = 0; i < finished_.size() && options_.deterministic; ++i)
    if (finished_[i].index != num_given_ + static_cast<std::int64_t>(i)) state.fail("a result is missing");
  if (!is_idle()) state.fail("there are other numbers of results");
  transfer_opened(state, input_, [this] { return pipeline_->open(key_); });
}

Ahead ParallelMapIterator::ahead() {
  const std::scoped_lock lock(mutex_);
  return {.num_ready = static_cast<std::int64_t>(finished_.size()),
          .buffer_size = num_threads_.num_threads(),
          .work_ns = static_cast<std::int64_t>(work_.total_ns.load(std::memory_order_relaxed)),
          .num_threads = static_cast<int>(num_threads_.num_threads())};
}

Outcome<FlatElement> ParallelMapIterator::call(Job&& job) {
  Outcome<FlatElement>& outcome = job.input;
  if (outcome.error) return std::move(outcome);
  const MeasuredCall measured(work_);
  try {
    outcome.element =
        call_for_element(what_, job.index, [&] { return host_element(fn_(std::move(outcome.element))); });
  } catch (...) {
    outcome.error = std::current_exception();
  }
  return std::move(outcome);
}

void ParallelMapIterator::note_shortage() {
  if (is_waiting_ && num_calls_ >= num_threads_.num_threads()) is_short_ = true;
}

bool ParallelMapIterator::wait_for_need(std::int64_t number) {
  std::unique_lock lock(mutex_);
  const auto is_needed = [&] { return ended_ || number < num_threads_.num_threads(); };
  return is_needed_.wait(lock, stop_.token(), is_needed) && !ended_;
}

void ParallelMapIterator::work(std::int64_t number) {
  const StopScope scope(stop_);
  while (wait_for_need(number)) {
    std::optional<Job> job = take();
    if (!job) return;
    const std::int64_t index = job->index;
    Outcome<FlatElement> outcome = call(std::move(*job));
    const std::scoped_lock lock(mutex_);
    --num_calls_;
    finished_.push_back({index, std::move(outcome)});
    has_element_.notify_one();
  }
}

}  // namespace lockstep::detail

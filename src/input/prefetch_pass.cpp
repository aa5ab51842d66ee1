#include "input/prefetch_pass.hpp"

#include <utility>

#include <lockstep/error.hpp>

#include "detail/start_thread.hpp"
#include "input/stopping.hpp"
#include "input/transform.hpp"

namespace lockstep::detail {

FlatElement take_outcome(Outcome&& outcome) {
  if (outcome.error) std::rethrow_exception(std::move(outcome.error));
  return std::move(outcome.element);
}

PrefetchPass::~PrefetchPass() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void PrefetchPass::start() {
  if (!thread_.joinable()) thread_ = start_thread("Dataset: the thread that reads ahead", [this] { read(); });
}

bool PrefetchPass::is_ready() {
  const std::scoped_lock lock(mutex_);
  return ended_ || !ready_.empty();
}

std::optional<FlatElement> PrefetchPass::next() {
  start();
  std::unique_lock lock(mutex_);
  if (!has_element_.wait(lock, current_stop_token(), [this] { return ended_ || !ready_.empty(); }))
    throw Stopped();
  if (ready_.empty()) return std::nullopt;
  Outcome outcome = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  has_room_.notify_one();
  return take_outcome(std::move(outcome));
}

std::optional<Outcome> PrefetchPass::read_one(std::unique_ptr<Pass<FlatElement>>& input) {
  try {
    if (!input) input = open_();
    std::optional<FlatElement> element = input->next();
    return element ? std::optional<Outcome>({std::move(*element), nullptr}) : std::nullopt;
  } catch (const Stopped&) {
    return std::nullopt;
  } catch (...) {
    return Outcome{{}, std::current_exception()};
  }
}

void PrefetchPass::read() {
  const StopScope scope(stop_.get_token());
  std::unique_ptr<Pass<FlatElement>> input;
  std::unique_lock lock(mutex_);
  while (has_room_.wait(lock, stop_.get_token(), [this] { return ready_.size() < buffer_size_; })) {
    lock.unlock();
    std::optional<Outcome> outcome = read_one(input);
    lock.lock();
    ended_ = !outcome || !input;  // no input: it could not be opened
    if (outcome) ready_.push_back(std::move(*outcome));
    const bool ends = ended_;
    has_element_.notify_one();
    if (on_ready_) {
      lock.unlock();
      on_ready_();
      lock.lock();
    }
    if (ends) return;
  }
}

PipelineHandle prefetched(const PipelineHandle& input, std::int64_t buffer_size) {
  LOCKSTEP_EXPECTS(buffer_size >= 1, InvalidArgument, "Dataset::prefetch: a buffer of ", buffer_size,
                   " elements. Pass at least 1.");
  return with_elements(input, [buffer_size](const PipelineHandle& from) {
    return std::make_unique<PrefetchPass>([from] { return from->open(); }, buffer_size);
  });
}

}  // namespace lockstep::detail

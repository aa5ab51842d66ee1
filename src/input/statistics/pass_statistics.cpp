#include "input/statistics/pass_statistics.hpp"

#include <algorithm>
#include <map>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

namespace {

std::chrono::nanoseconds nanoseconds(const std::atomic<std::uint64_t>& count) {
  return std::chrono::nanoseconds(count.load(std::memory_order_relaxed));
}

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string decimal(double value) {
  std::string text = std::to_string(value);
  return text.substr(0, text.find('.') + 3);
}

std::chrono::nanoseconds work_per_thread(const StageStatistics& stage) {
  return stage.work / stage.num_threads;
}

/// The line that names what bounds the pass. @param threads  for each stage, what stands for its thread.
std::string slowest_of(const std::vector<StageStatistics>& stages, const std::vector<const void*>& threads) {
  std::map<const void*, std::chrono::nanoseconds> work_of;
  for (std::size_t i = 0; i < stages.size(); ++i) work_of[threads[i]] += work_per_thread(stages[i]);
  const auto by_work = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto busiest = std::max_element(work_of.begin(), work_of.end(), by_work);
  if (busiest == work_of.end() || busiest->second.count() == 0) return {};
  const StageStatistics* slowest = nullptr;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (threads[i] != busiest->first) continue;
    if (slowest == nullptr || work_per_thread(stages[i]) > work_per_thread(*slowest)) slowest = &stages[i];
  }
  const std::chrono::nanoseconds work = work_per_thread(*slowest);
  const auto percent = 100 * work.count() / busiest->second.count();
  return concat("The slowest stage is ", slowest->stage, ": ", decimal(milliseconds(work)), " ms",
                slowest->num_threads > 1 ? concat(" on each of ", slowest->num_threads, " threads") : "",
                " for ", slowest->num_elements, " elements, ", percent, " % of what its thread does.");
}

}  // namespace

std::shared_ptr<PassStatistics> PassStatistics::if_recording() {
  return Span::is_anyone_listening() ? std::make_shared<PassStatistics>() : nullptr;
}

StageCounts& PassStatistics::find(const std::string& text, const std::shared_ptr<Stage>& stage) {
  const std::scoped_lock lock(mutex_);
  for (StageCounts& counts : stages_)
    if (stage ? counts.stage == stage : !counts.stage && counts.text == text) return counts;
  StageCounts& counts = stages_.emplace_back();
  counts.text = text;
  counts.stage = stage;
  return counts;
}

StageCounts& PassStatistics::of(const std::shared_ptr<Stage>& stage) {
  return whole_ ? whole_->find(prefix_ + stage->text, nullptr) : find(stage->text, stage);
}

StageCounts& PassStatistics::of(std::string_view text) { return find(std::string(text), nullptr); }

std::shared_ptr<PassStatistics> PassStatistics::parts(const std::shared_ptr<PassStatistics>& self,
                                                      std::string_view what) {
  if (!self) return nullptr;
  auto parts = std::make_shared<PassStatistics>();
  parts->whole_ = self->whole_ ? self->whole_ : self;
  parts->prefix_ = concat(self->prefix_, what, ": ");
  return parts;
}

InputStatistics PassStatistics::statistics() const {
  InputStatistics result;
  std::vector<const void*> threads;
  const std::scoped_lock lock(mutex_);
  // Stages are opened from the last one on.
  for (auto counts = stages_.rbegin(); counts != stages_.rend(); ++counts) {
    StageStatistics& stage = result.stages.emplace_back();
    const auto num_calls = counts->calls.num_calls.load(std::memory_order_relaxed);
    const std::chrono::nanoseconds on_threads(counts->threads_ns.load(std::memory_order_relaxed));
    stage.stage = counts->text;
    stage.num_elements = counts->num_elements.load(std::memory_order_relaxed);
    stage.total = nanoseconds(counts->calls.total_ns);
    stage.waiting = nanoseconds(counts->calls.waiting_ns);
    stage.work = on_threads;
    if (on_threads.count() == 0)
      stage.work = std::max(std::chrono::nanoseconds(0),
                            stage.total - stage.waiting - nanoseconds(counts->calls.inner_ns));
    else
      stage.num_threads = counts->num_threads.load(std::memory_order_relaxed);
    stage.buffer_size = counts->buffer_size.load(std::memory_order_relaxed);
    if (num_calls > 0)
      stage.mean_ready = static_cast<double>(counts->num_ready.load(std::memory_order_relaxed)) /
                         static_cast<double>(num_calls);
    const void* const thread = counts->calls.outermost.load(std::memory_order_relaxed);
    threads.push_back(on_threads.count() > 0 ? &*counts : thread);
  }
  result.slowest = slowest_of(result.stages, threads);
  return result;
}

InputStatistics statistics_of(const std::shared_ptr<PassStatistics>& statistics, std::string_view what) {
  LOCKSTEP_EXPECTS(statistics, ContextError, what,
                   ": nothing was recorded when the iterator was made, so its stages are not measured. Call "
                   "trace::start before, or set LOCKSTEP_TRACE.");
  return statistics->statistics();
}

}  // namespace lockstep::detail

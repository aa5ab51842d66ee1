#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "input/statistics/pass_statistics.hpp"

namespace lockstep::detail {

/// Counts the values of an iterator, and measures what they take, while somebody listens to spans.
template <class T>
class MeasuredIterator final : public Iterator<T> {
 public:
  MeasuredIterator(std::unique_ptr<Iterator<T>> measured, std::shared_ptr<PassStatistics> owner,
                   StageCounts& counts)
      : measured_(std::move(measured)), owner_(std::move(owner)), counts_(&counts) {}
  ~MeasuredIterator() override {
    if (!Span::is_anyone_listening()) return;
    try {
      note_work(measured_->ahead());
    } catch (const std::system_error&) {  // its lock cannot be taken: the last work is not counted
    }
  }

  std::optional<T> next() override {
    return measured([this] { return measured_->next(); }, [](const T&) { return std::int64_t{1}; });
  }
  std::optional<RowBlock> next_rows(std::int64_t most) override {
    return measured([&] { return measured_->next_rows(most); },
                    [](const RowBlock& rows) { return rows.num_rows; });
  }
  bool owns_memory() const override { return measured_->owns_memory(); }
  void transfer(PassState& state) override { state(*measured_); }

 private:
  template <class Take, class Count>
  auto measured(const Take& take, const Count& num_elements) {
    if (!Span::is_anyone_listening()) return take();
    note(measured_->ahead());
    const MeasuredCall call(counts_->calls);
    auto taken = take();
    if (taken) counts_->num_elements.fetch_add(num_elements(*taken), std::memory_order_relaxed);
    return taken;
  }
  void note(const Ahead& ahead) {
    if (ahead.buffer_size == 0) return;
    counts_->num_ready.fetch_add(ahead.num_ready, std::memory_order_relaxed);
    counts_->buffer_size.store(ahead.buffer_size, std::memory_order_relaxed);
    counts_->num_threads.store(ahead.num_threads, std::memory_order_relaxed);
    note_work(ahead);
  }
  void note_work(const Ahead& ahead) {
    counts_->threads_ns.fetch_add(ahead.work_ns - last_work_ns_, std::memory_order_relaxed);
    last_work_ns_ = ahead.work_ns;
  }

  std::unique_ptr<Iterator<T>> measured_;
  std::shared_ptr<PassStatistics> owner_;  // owners: the pass's keys and iterators
  StageCounts* counts_;                    // in owner_
  std::int64_t last_work_ns_ = 0;
};

/// The pass of a stage that `open` opens, measured if its key says so.
template <class T, class Open>
std::unique_ptr<Iterator<T>> open_measured(const IterationKey& key, const std::shared_ptr<Stage>& stage,
                                           const Open& open) {
  const auto& statistics = key.statistics();
  if (!statistics) return open();
  StageCounts& counts = statistics->of(stage);  // before its inputs'
  return std::make_unique<MeasuredIterator<T>>(open(), statistics, counts);
}

}  // namespace lockstep::detail

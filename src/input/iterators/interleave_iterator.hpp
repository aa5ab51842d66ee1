#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "input/iterators/prefetch_iterator.hpp"
#include "input/pipeline/automatic_threads.hpp"
#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

/// Counts the elements that threads have made ready, for a thread that waits for any of them. Thread-safe.
class ReadySignal {
 public:
  void give();
  std::uint64_t count() const;
  /// @throws Stopped
  void wait_past(std::uint64_t count);

 private:
  mutable std::mutex mutex_;  // guards count_
  std::condition_variable_any changed_;
  std::uint64_t count_ = 0;
};

/// A dataset that a function has made, and the pass over it.
struct OpenedPart {
  PipelineHandle pipeline;
  std::unique_ptr<Iterator<FlatElement>> pass;
};

/// Opens the pass for the element of this index.
using IteratorFunction = std::function<OpenedPart(FlatElement&& element, std::int64_t index)>;

/// Takes blocks in turn from the passes that a function makes of elements.
class InterleaveIterator final : public Iterator<FlatElement> {
 public:
  /// @param options  with n > 1 parallel calls, each of the first n passes in the cycle has a thread that
  /// reads it ahead; if not deterministic, a pass that has nothing ready is skipped for the time being. With
  /// `automatic` a pass gets its thread when n becomes large enough, and keeps it to its end.
  /// @param what  the call that messages name; a literal. @param most  the most threads, if the options are
  /// automatic.
  InterleaveIterator(std::unique_ptr<Iterator<FlatElement>> input, IteratorFunction fn,
                     std::int64_t cycle_length, std::int64_t block_length, const ParallelOptions& options,
                     std::string_view what, std::int64_t most = AutomaticThreads::num_cores())
      : input_(std::move(input)),
        fn_(std::move(fn)),
        cycle_length_(cycle_length),
        block_length_(block_length),
        what_(what),
        threads_(options, std::min(most, cycle_length)),
        takes_ready_(options.num_parallel_calls != 1 && !options.deterministic) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override;

  /// The number of passes that have threads now, if there are as many.
  std::int64_t num_threads() const noexcept {
    return threads_.num_threads() > 1 || threads_.is_automatic() ? threads_.num_threads() : 0;
  }

 private:
  struct Slot {
    FlatElement element{};  // that the dataset is made of
    std::int64_t index = 0;
    PipelineHandle pipeline{};
    std::unique_ptr<Iterator<FlatElement>> pass{};
    PrefetchIterator<FlatElement>* ahead = nullptr;  // the pass, if it has a thread
  };

  void go_to(std::int64_t slot) noexcept;
  /// Opens the pass of the element in a slot.
  void open(Slot& slot, bool has_thread);
  void transfer(PassState& state, Slot& slot, bool has_thread);
  /// Lets a thread read the slot's pass from where it is.
  void read_ahead(Slot& slot);
  /// The next element of the slot's pass; counts whether it was waited for.
  std::optional<FlatElement> next_of(std::size_t slot);
  /// Puts a pass in the current slot, unless the input has ended.
  void fill();
  /// Starts the threads of the passes that a state had open.
  void start_threads();
  /// Fills the slots that have threads, and moves to one that has an element ready.
  void go_to_ready();

  std::unique_ptr<Iterator<FlatElement>> input_;  // null at its end
  IteratorFunction fn_;
  std::int64_t index_ = 0;  // of the next element of the input
  std::int64_t cycle_length_, block_length_;
  std::string_view what_;
  AutomaticThreads threads_;
  bool takes_ready_;
  std::shared_ptr<ReadySignal> ready_ = std::make_shared<ReadySignal>();  // owners: this and its passes
  std::vector<Slot> cycle_;                                               // grows as places are first reached
  std::int64_t slot_ = 0;                                                 // in the cycle
  std::int64_t block_ = 0;                                                // elements taken there in a row
  std::int64_t num_open_ = 0;
  bool starts_threads_ = false;  // not while a state is read, which may fail
};

}  // namespace lockstep::detail

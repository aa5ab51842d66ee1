#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "input/iterators/prefetch_iterator.hpp"
#include "input/pipeline/automatic_threads.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"
#include "trace/measured_call.hpp"

namespace lockstep::detail {

/// Calls a function for each element, on several threads. They take turns at the input, and are ahead of the
/// next element to be taken by at most as many elements as there are threads. With ParallelOptions::automatic
/// threads that are too many wait for their turn until they are needed again.
class ParallelMapIterator final : public Iterator<FlatElement> {
 public:
  /// @param what  the call that messages name; a literal. @param most  the most threads, if the options are
  /// automatic.
  ParallelMapIterator(PipelineHandle input, const IterationKey& key, ElementFunction fn,
                      const ParallelOptions& options, std::string_view what,
                      std::int64_t most = AutomaticThreads::num_cores())
      : pipeline_(std::move(input)),
        key_(key),
        fn_(std::move(fn)),
        options_(options),
        what_(what),
        num_threads_(options, most) {}
  ~ParallelMapIterator() override;
  /// @throws Error  a thread cannot be started.
  std::optional<FlatElement> next() override;
  /// The number of threads that are used now. Any thread may call.
  std::int64_t num_threads() {
    const std::scoped_lock lock(mutex_);
    return num_threads_.num_threads();
  }
  /// Whether the call of `next` that is being made waits while all threads are in calls of the function. Any
  /// thread may call.
  bool is_short() {
    const std::scoped_lock lock(mutex_);
    return is_short_;
  }
  /// Results that are ready are a part of the state. Waits for the calls that the threads are making.
  void transfer(PassState& state) override;
  Ahead ahead() override;

 private:
  struct Finished {
    std::int64_t index = 0;
    Outcome<FlatElement> outcome{};

    void transfer(PassState& state) { state(index, outcome); }
  };
  struct Job {
    std::int64_t index;
    Outcome<FlatElement> input;
  };

  /// Starts the threads that there should be and are not.
  void start();
  /// @param number  of the thread, from 0.
  void work(std::int64_t number);
  /// Waits until the thread is not one too many. @return whether there may be more to do.
  bool wait_for_need(std::int64_t number);
  /// Notes it if the taker waits and all threads are in calls. The caller holds mutex_.
  void note_shortage();
  /// Takes the next element of the input; nothing at its end.
  std::optional<Job> take();
  Outcome<FlatElement> call(Job&& job);
  /// The outcome to return next. The caller holds mutex_.
  std::vector<Finished>::iterator find_next();

  PipelineHandle pipeline_;
  IterationKey key_;
  ElementFunction fn_;
  ParallelOptions options_;
  std::string_view what_;
  std::mutex input_mutex_;  // guards input_; taken before mutex_
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::mutex mutex_;  // guards all members below except stop_ and threads_
  std::condition_variable_any has_element_, has_room_, is_needed_;
  AutomaticThreads num_threads_;
  std::int64_t num_calls_ = 0;  // that are being made
  bool is_waiting_ = false;     // whether `next` waits
  bool is_short_ = false;       // whether it waited while all threads were in calls
  std::vector<Finished> finished_;
  std::int64_t num_taken_ = 0;
  std::int64_t num_given_ = 0;
  bool ended_ = false;  // whether the input has ended
  bool is_taking_ = false;
  bool is_paused_ = false;
  CallTotals work_;  // of the threads
  ThreadStop stop_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::detail

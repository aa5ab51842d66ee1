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
#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"
#include "trace/measured_call.hpp"

namespace lockstep::detail {

/// Calls a function for each element, on several threads. They take turns at the input, and are ahead of the
/// next element to be taken by at most as many elements as there are threads.
class ParallelMapIterator final : public Iterator<FlatElement> {
 public:
  /// @param what  the call that messages name; a literal.
  ParallelMapIterator(PipelineHandle input, const IterationKey& key, ElementFunction fn,
                      const ParallelOptions& options, std::string_view what)
      : pipeline_(std::move(input)), key_(key), fn_(std::move(fn)), options_(options), what_(what) {}
  ~ParallelMapIterator() override;
  /// @throws Error  a thread cannot be started.
  std::optional<FlatElement> next() override;
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

  void start();
  void work();
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
  std::condition_variable_any has_element_, has_room_;
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

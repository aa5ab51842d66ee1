#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "input/iterators/prefetch_iterator.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

/// What a function gives for each element, on several threads. They take turns at the input, and work on as
/// many elements as they are ahead of the one that is taken next.
class ParallelMapIterator final : public Iterator<FlatElement> {
 public:
  ParallelMapIterator(PipelineHandle input, const IterationKey& key, ElementFunction fn,
                      const ParallelOptions& options)
      : pipeline_(std::move(input)), key_(key), fn_(std::move(fn)), options_(options) {}
  ~ParallelMapIterator() override;
  /// @throws Error  a thread cannot be started.
  std::optional<FlatElement> next() override;

 private:
  struct Finished {
    std::int64_t index;
    Outcome<FlatElement> outcome;
  };
  struct Job {
    std::int64_t index;
    Outcome<FlatElement> input;
  };

  void start();
  void work();
  /// The next element of the input; nothing at its end.
  std::optional<Job> take();
  Outcome<FlatElement> call(Job&& job) const;
  /// The one to give next. With mutex_ held.
  std::vector<Finished>::iterator find_next();

  PipelineHandle pipeline_;
  IterationKey key_;
  ElementFunction fn_;
  ParallelOptions options_;
  std::mutex input_mutex_;  // guards input_; taken before mutex_
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::mutex mutex_;  // guards all below, but stop_ and threads_
  std::condition_variable_any has_element_, has_room_;
  std::vector<Finished> finished_;
  std::int64_t num_taken_ = 0;
  std::int64_t num_given_ = 0;
  bool ended_ = false;  // the input has
  ThreadStop stop_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::detail

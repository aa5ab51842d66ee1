#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/input_statistics.hpp>

#include "trace/measured_call.hpp"

namespace lockstep::detail {

struct Stage;

/// What is counted of one stage. Any threads may add to it.
struct StageCounts {
  std::string text;
  std::shared_ptr<const Stage> stage;  // owners: the pipelines too; null: a part's, or no pipeline's
  CallTotals calls{};
  std::atomic<std::int64_t> num_elements{0};
  std::atomic<std::int64_t> num_ready{0};  // the sum over all calls
  std::atomic<std::int64_t> buffer_size{0};
  std::atomic<std::int64_t> threads_ns{0};  // what its threads have worked
  std::atomic<int> num_threads{1};
};

/// The counts of a pass's stages. Thread-safe.
class PassStatistics {
 public:
  /// Those of a new pass; null while nobody records, so that a pass pays for nothing.
  static std::shared_ptr<PassStatistics> if_recording();

  /// The counts of a stage, which are made with the first call. They live as long as this.
  StageCounts& of(const std::shared_ptr<Stage>& stage);
  /// Those of what is no stage of a dataset.
  StageCounts& of(std::string_view text);
  /// For the datasets that a function makes: all of them together are a stage for each of their calls.
  /// @param what  "interleave". @param self  this.
  static std::shared_ptr<PassStatistics> parts(const std::shared_ptr<PassStatistics>& self,
                                               std::string_view what);

  InputStatistics statistics() const;

 private:
  StageCounts& find(const std::string& text, const std::shared_ptr<Stage>& stage);

  std::shared_ptr<PassStatistics> whole_;  // null: this is the whole
  std::string prefix_;                     // of parts
  mutable std::mutex mutex_;               // guards stages_
  std::deque<StageCounts> stages_;         // in the order of their opening: what reads an input comes first
};

/// @param statistics  null: nobody recorded. @throws ContextError
InputStatistics statistics_of(const std::shared_ptr<PassStatistics>& statistics, std::string_view what);

}  // namespace lockstep::detail

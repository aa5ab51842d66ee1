#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <lockstep/detail/pipeline.hpp>

namespace lockstep::detail {

/// What came of one element.
struct Outcome {
  FlatElement element;
  std::exception_ptr error;  ///< Null: there is the element.
};

/// The element. @throws what there is instead.
FlatElement take_outcome(Outcome&& outcome);

/// A pass that a thread reads ahead. The thread opens it, and closes it before it ends.
class PrefetchPass final : public Pass<FlatElement> {
 public:
  PrefetchPass(Opener<FlatElement> open, std::int64_t buffer_size)
      : open_(std::move(open)), buffer_size_(static_cast<std::size_t>(buffer_size)) {}
  ~PrefetchPass() override;
  /// @throws Error  the thread cannot be started.
  std::optional<FlatElement> next() override;

 private:
  void read();
  /// The next element, or the exception; nothing: the end.
  std::optional<Outcome> read_one(std::unique_ptr<Pass<FlatElement>>& input);

  Opener<FlatElement> open_;
  std::size_t buffer_size_;
  std::mutex mutex_;  // guards ready_ and ended_
  std::condition_variable_any has_element_, has_room_;
  std::deque<Outcome> ready_;
  bool ended_ = false;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace lockstep::detail

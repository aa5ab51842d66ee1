#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
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
  /// @param on_ready  called on the thread after each element and at the end; may be empty.
  PrefetchPass(Opener<FlatElement> open, std::int64_t buffer_size, std::function<void()> on_ready = {})
      : open_(std::move(open)),
        buffer_size_(static_cast<std::size_t>(buffer_size)),
        on_ready_(std::move(on_ready)) {}
  ~PrefetchPass() override;
  /// Starts the thread, if `next` has not. @throws Error  it cannot be started.
  void start();
  /// Whether `next` would not wait. @pre started.
  bool is_ready();
  /// @throws as start; what the input does, where its element would have come.
  std::optional<FlatElement> next() override;

 private:
  void read();
  /// The next element, or the exception; nothing: the end.
  std::optional<Outcome> read_one(std::unique_ptr<Pass<FlatElement>>& input);

  Opener<FlatElement> open_;
  std::size_t buffer_size_;
  std::function<void()> on_ready_;
  std::mutex mutex_;  // guards ready_ and ended_
  std::condition_variable_any has_element_, has_room_;
  std::deque<Outcome> ready_;
  bool ended_ = false;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace lockstep::detail

#pragma once

#include <exception>
#include <utility>

#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/nest.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {

/// Work that was started on communication streams: an event at the end of each part, and its operands, which
/// must live until then.
class StartedWork {
 public:
  /// Nothing; complete.
  StartedWork() noexcept;
  StartedWork(StartedWork&& other) noexcept;
  StartedWork& operator=(StartedWork&& other) noexcept;
  /// Joins, and ignores errors.
  ~StartedWork();

  /// A part of the work ends with what is enqueued on `communication` so far.
  void add(StreamRef communication, RecycledVector<Tensor> kept);
  bool is_complete() const noexcept;
  std::exception_ptr exception() const noexcept;
  void synchronize() const;
  /// Work enqueued on the devices' current streams afterwards starts after this. Does not block the host.
  void join();
  /// @throws what is known to have failed; asks no device, as the streams may be captured.
  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Part;
  RecycledVector<Part> parts_;
  bool is_joined_ = false;
  mutable std::exception_ptr failure_;  // the first that a device has reported; null: none
};

/// Gives results that a communication stream owns to the current stream.
void give_to_current_stream(Tensor result);
template <class T>
void give_all_to_current_stream(const T& nest) {
  for_each_leaf(nest, [](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (std::is_same_v<Leaf, Tensor>)
      give_to_current_stream(leaf);
    else if constexpr (is_mirrored<Leaf>::value)
      for (const auto& component : leaf) give_to_current_stream(component);
  });
}

}  // namespace detail

/// A started reduction and its result. It runs on communication streams of the strategy's, beside what is
/// enqueued on the current streams; on the host it is done when it was started. It keeps operands and result
/// alive, and must not outlive the strategy. Move only; one thread at a time. Destruction without wait()
/// orders what comes after, too, and drops the result.
///
/// The verbs, beside those of PyTorch's c10d::Work:
///
/// | here | there | blocks the host | orders the current streams | throws a failure |
/// |---|---|---|---|---|
/// | is_complete | isCompleted | no | no | no |
/// | is_success | isSuccess | no | no | no |
/// | exception | exception | no | no | no, returns it |
/// | wait | wait, as NCCL's works | no | yes | one that is known |
/// | wait_stream | synchronize, waitStream | no | yes | one that is known |
/// | synchronize | wait, as it is documented | yes | no | yes |
///
/// A reduction that is started while its streams are captured runs whenever the graph is launched, so that
/// its Work is never complete: is_complete() is false for ever, and synchronize() throws ContextError.
///
/// A failure is known once is_complete, is_success, exception or synchronize has met it; the later calls
/// throw it again. A current stream is that of this thread, as current_stream(device) says.
template <class Result>
class [[nodiscard]] Work {
 public:
  Work(detail::StartedWork started, Result result)
      : result_(std::move(result)), started_(std::move(started)) {}

  /// Whether the reduction has ended, well or not. Does not block.
  [[nodiscard]] bool is_complete() const noexcept { return started_.is_complete(); }
  /// Whether it has ended well. Does not block.
  [[nodiscard]] bool is_success() const noexcept { return is_complete() && !started_.exception(); }
  /// Why it failed; null while it runs, and when it has ended well. Does not block.
  [[nodiscard]] std::exception_ptr exception() const noexcept {
    return is_complete() ? started_.exception() : nullptr;
  }
  /// Blocks the host until it has ended. @throws DeviceError, CollectiveError  it failed. @throws
  /// ContextError it was started in a capture.
  void synchronize() const { started_.synchronize(); }
  /// Orders what is enqueued afterwards on the devices' current streams after the reduction, by events: the
  /// host does not wait. @throws DeviceError, CollectiveError  it is known to have failed.
  void wait_stream() {
    started_.rethrow_failure();
    started_.join();
    detail::give_all_to_current_stream(result_);
  }
  /// The same as wait_stream. @return the result, for use on the current streams.
  Result wait() {
    wait_stream();
    return result_;
  }

 private:
  Result result_;
  detail::StartedWork started_;  // destroyed before result_
};

}  // namespace lockstep

#pragma GCC visibility pop

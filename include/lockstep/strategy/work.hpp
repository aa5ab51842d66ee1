#pragma once

#include <utility>

#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/nest.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {

/// What was started on communication streams: events at its end, and what must live until then.
class StartedWork {
 public:
  /// Nothing; complete.
  StartedWork() noexcept;
  StartedWork(StartedWork&& other) noexcept;
  StartedWork& operator=(StartedWork&& other) noexcept;
  /// As `join`, but for errors.
  ~StartedWork();

  /// A part of the work ends with what is enqueued on `communication` so far.
  void add(StreamRef communication, RecycledVector<Tensor> kept);
  bool is_complete() const;
  void synchronize() const;
  /// Work enqueued on the devices' current streams afterwards starts after this. Does not block the host.
  void join();

 private:
  struct Part;
  RecycledVector<Part> parts_;
};

/// Makes results that a communication stream owns the current stream's.
void hand_over(Tensor result);
template <class T>
void hand_over_all(const T& nest) {
  for_each_leaf(nest, [](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (std::is_same_v<Leaf, Tensor>)
      hand_over(leaf);
    else if constexpr (is_mirrored<Leaf>::value)
      for (const auto& component : leaf) hand_over(component);
  });
}

}  // namespace detail

/// A started reduction and its result. It runs on communication streams of the strategy's, beside what is
/// enqueued on the current streams; on the host it is done when it was started. It keeps operands and result
/// alive, and must not outlive the strategy. Move only; one thread at a time. Destruction without wait()
/// orders what comes after, too, and drops the result.
template <class Result>
class [[nodiscard]] Work {
 public:
  Work(detail::StartedWork started, Result result)
      : result_(std::move(result)), started_(std::move(started)) {}

  /// Whether the reduction is done; does not block.
  bool is_complete() const { return started_.is_complete(); }
  /// Blocks the host until it is done. @throws DeviceError, CollectiveError  it failed.
  void synchronize() const { started_.synchronize(); }
  /// Orders what is enqueued afterwards on the devices' current streams after the reduction, by events: the
  /// host does not wait.
  /// @return the result.
  Result wait() {
    started_.join();
    detail::hand_over_all(result_);
    return result_;
  }

 private:
  Result result_;
  detail::StartedWork started_;  // goes first
};

}  // namespace lockstep

#pragma GCC visibility pop

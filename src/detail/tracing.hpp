#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/thread_guard.hpp>
#include <lockstep/device.hpp>

/// What the calls of a step have to know of the trace that they are made in (Strategy::function).
namespace lockstep::detail {

/// An object of the host that takes part in a traced step: its state decides whether the trace fits, gives
/// numbers to each launch, and changes with it. The strategy's calls are serialised meanwhile, but in a trace
/// replicas may call at the same time.
class HostPart {
 public:
  virtual ~HostPart() = default;
  /// Whether the state is the one that was traced.
  virtual bool fits() const { return true; }
  /// Before a launch: writes its numbers to the places that it has reserved. May throw; changes nothing.
  virtual void prepare(std::byte* /*numbers*/) {}
  /// The step was launched: the state changes as its calls would change it.
  virtual void commit() noexcept {}
  /// The trace has failed: the state becomes what it was before.
  virtual void restore() noexcept {}
};

/// The trace that is being recorded: in the first call of a signature, which runs as any, to learn on what it
/// depends, and in the second one, whose work is captured. Thread-safe.
class TraceRecorder {
 public:
  virtual ~TraceRecorder() = default;
  /// Whether work is captured, to be launched again: what changes from step to step must be in numbers.
  virtual bool captures() const noexcept = 0;
  /// The part of `owner` and of one replica, or of all (-1), which `make` makes at the first call.
  virtual HostPart& part(const void* owner, int replica, FunctionRef<std::unique_ptr<HostPart>()> make) = 0;
  /// Reserves memory for numbers. @return its place. @throws Unsupported  there is no more.
  virtual std::size_t reserve_numbers(std::size_t size_bytes) = 0;
  /// The trace, which is going to fail, is to be made once more: what made it fail has been changed.
  virtual void repeat() noexcept = 0;
  /// Where kernels read the numbers of that place. @param device  a replica's. @pre captures()
  virtual std::byte* numbers_on(const Device& device, std::size_t place) = 0;
};

/// While it lives, the thread's calls belong to a call of a function of a strategy.
class [[nodiscard]] TraceScope : public ThreadGuard<TraceScope> {
 public:
  /// @param has_rules  whether values may not be looked at: in all calls of a signature but the first.
  /// @param recorder  null: the call repeats a trace.
  TraceScope(bool has_rules, TraceRecorder* recorder) noexcept : has_rules_(has_rules), recorder_(recorder) {}

  static bool is_active() noexcept { return innermost() != nullptr; }
  static bool has_rules() noexcept { return is_active() && innermost()->has_rules_; }
  static TraceRecorder* recorder() noexcept { return is_active() ? innermost()->recorder_ : nullptr; }
  /// The recorder of work that is captured; else null.
  static TraceRecorder* capturing() noexcept {
    TraceRecorder* const recorder = TraceScope::recorder();
    return recorder != nullptr && recorder->captures() ? recorder : nullptr;
  }

 private:
  friend class ThreadGuard<TraceScope>;
  static constexpr std::string_view kGuardName = "the scope of a traced step";
  static TraceScope*& innermost() noexcept;

  const bool has_rules_;
  TraceRecorder* const recorder_;
};

/// While it lives, the fused update that the thread enqueues reads the numbers that change from step to step
/// from device memory: a backend::StepNumbers.
class [[nodiscard]] TracedUpdate : public ThreadGuard<TracedUpdate> {
 public:
  explicit TracedUpdate(const void* numbers) noexcept : numbers_(numbers) {}
  /// Null: there is none.
  static const void* numbers() noexcept { return innermost() == nullptr ? nullptr : innermost()->numbers_; }

 private:
  friend class ThreadGuard<TracedUpdate>;
  static constexpr std::string_view kGuardName = "the scope of a traced update";
  static TracedUpdate*& innermost() noexcept;

  const void* const numbers_;
};

/// @throws ContextError  in a traced step: `what`, as "Tensor::item: [4] float32 on GPU:0", needs a value
/// that is there only when the step runs.
void require_no_trace(std::string_view what, std::string_view advice);

}  // namespace lockstep::detail

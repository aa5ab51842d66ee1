#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::detail {

template <class Signature>
class FunctionRef;

/// A reference to a function object that outlives the call it is passed to. Never allocates.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  FunctionRef() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& function)
  noexcept
      : function_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* self, Args... args) -> R {
          return static_cast<R>(
              (*static_cast<std::remove_reference_t<F>*>(self))(std::forward<Args>(args)...));
        }) {}

  explicit operator bool() const noexcept { return call_ != nullptr; }
  /// @pre the reference is not empty.
  R operator()(Args... args) const { return call_(function_, std::forward<Args>(args)...); }

 private:
  void* function_ = nullptr;
  R (*call_)(void*, Args...) = nullptr;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop

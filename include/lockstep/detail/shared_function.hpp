#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::detail {

template <class Signature>
class SharedFunction;

/// A function whose copies share one callable, so that a chain of functions does not copy its earlier
/// members. It is called as const, from any thread that the callable allows.
template <class R, class... Args>
class SharedFunction<R(Args...)> {
 public:
  SharedFunction(std::nullptr_t = nullptr) noexcept {}
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, SharedFunction> &&
           std::is_invocable_r_v<R, const std::remove_cvref_t<F>&, Args...>) SharedFunction(F&& function) {
    if constexpr (std::is_constructible_v<std::remove_cvref_t<F>, std::nullptr_t> &&
                  requires { function == nullptr; })
      if (function == nullptr) return;  // an empty std::function, or no pointer
    function_ = std::make_shared<const Holder<std::remove_cvref_t<F>>>(std::forward<F>(function));
  }

  explicit operator bool() const noexcept { return function_ != nullptr; }
  /// @pre the function is not empty.
  R operator()(Args... args) const { return function_->call(std::forward<Args>(args)...); }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual R call(Args... args) const = 0;
  };
  template <class F>
  struct Holder final : Callable {
    template <class G>
    explicit Holder(G&& given) : function(std::forward<G>(given)) {}
    R call(Args... args) const override { return function(std::forward<Args>(args)...); }
    F function;
  };

  std::shared_ptr<const Callable> function_;  // owners: the copies; null: no function
};

}  // namespace lockstep::detail

#pragma GCC visibility pop

#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep/values/nest.hpp>

#pragma GCC visibility push(default)

/// Calls of a function for each replica.
namespace lockstep {

class ReplicaContext;

namespace detail {

template <class F, class... Args>
inline constexpr bool takes_arguments = std::is_invocable_v<F&, selected_t<Args>...>;
template <class F, class... Args>
inline constexpr bool takes_context = std::is_invocable_v<F&, ReplicaContext&, selected_t<Args>...>;

/// Whether a function that cannot take a tuple takes its members.
template <class F, class... Args>
inline constexpr bool kTakesStep = false;
template <class F, TupleNest Arg>
requires(!takes_arguments<F, Arg> && !takes_context<F, Arg>) inline constexpr bool kTakesStep<F, Arg> = [
]<std::size_t... I>(std::index_sequence<I...>) {
  return takes_arguments<F, std::tuple_element_t<I, Arg>...> ||
         takes_context<F, std::tuple_element_t<I, Arg>...>;
}
(std::make_index_sequence<std::tuple_size_v<Arg>>());

/// Calls fn with the arguments alone if that is well-formed, else with the context first.
template <class F, class... Args>
decltype(auto) call_replica_function(F& fn, ReplicaContext& context, Args&&... args) {
  if constexpr (std::is_invocable_v<F&, Args...>)
    return fn(std::forward<Args>(args)...);
  else
    return fn(context, std::forward<Args>(args)...);
}

/// The parameters of a function, or of a call operator that is neither overloaded nor a template.
template <class F>
struct parameters {};
template <class R, class... P>
struct parameters<R (*)(P...)> {
  using type = std::tuple<P...>;
};
template <class R, class... P>
struct parameters<R (*)(P...) noexcept> : parameters<R (*)(P...)> {};
template <class R, class C, class... P>
struct parameters<R (C::*)(P...)> : parameters<R (*)(P...)> {};
template <class R, class C, class... P>
struct parameters<R (C::*)(P...) const> : parameters<R (*)(P...)> {};
template <class R, class C, class... P>
struct parameters<R (C::*)(P...) noexcept> : parameters<R (*)(P...)> {};
template <class R, class C, class... P>
struct parameters<R (C::*)(P...) const noexcept> : parameters<R (*)(P...)> {};
template <class F>
requires requires { &F::operator(); }
struct parameters<F> : parameters<decltype(&F::operator())> {};

/// Whether parameter K of a function is a `const T&`; false for a template, whose parameters are unknown.
template <class F, class T, std::size_t K>
consteval bool only_reads() {
  if constexpr (requires { typename parameters<std::decay_t<F>>::type; }) {
    using P = typename parameters<std::decay_t<F>>::type;
    if constexpr (K < std::tuple_size_v<P>) return std::is_same_v<std::tuple_element_t<K, P>, const T&>;
  }
  return false;
}

/// Replica i's part of the argument for parameter K of `F`: a reference to the argument, or to its component,
/// if the function only reads it; else a copy.
template <class F, std::size_t K, class Arg>
decltype(auto) replica_argument(const Arg& arg, int i) {
  if constexpr (!has_distributed_leaf<Arg>() && only_reads<F, Arg, K>())
    return (arg);
  else if constexpr (DistributedLeaf<Arg> && only_reads<F, selected_t<Arg>, K>())
    return select_one(arg, i);
  else
    return select<decayed_t<Arg>>(arg, i);
}

}  // namespace detail
}  // namespace lockstep

#pragma GCC visibility pop

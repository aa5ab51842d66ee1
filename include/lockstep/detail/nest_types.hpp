#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/dtype.hpp>

#pragma GCC visibility push(default)

/// The types that count as nests: tuples, pairs, arrays, vectors (of anything but host scalars), string-keyed
/// maps, optionals, and user structs registered with LOCKSTEP_NEST. Everything else is a leaf.
namespace lockstep::detail {

template <class T>
concept HostScalar = Element<T>;

template <class T>
struct is_tuple : std::false_type {};
template <class... T>
struct is_tuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct is_tuple<std::pair<A, B>> : std::true_type {};
template <class T>
concept TupleNest = is_tuple<T>::value;

template <class T>
struct is_array : std::false_type {};
template <class T, std::size_t N>
struct is_array<std::array<T, N>> : std::true_type {};
template <class T>
concept ArrayNest = is_array<T>::value;

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::bool_constant<!HostScalar<T>> {};
template <class T>
concept VectorNest = is_vector<T>::value;

template <class T>
struct is_map : std::false_type {};
template <class T>
struct is_map<std::map<std::string, T>> : std::true_type {};
template <class T>
concept MapNest = is_map<T>::value;

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
concept OptionalNest = is_optional<T>::value;

/// A struct registered with LOCKSTEP_NEST: `lockstep_nest_members(value)` is a tuple of references to its
/// members.
template <class T>
concept RecordNest = requires(T& value) {
  lockstep_nest_members(value);
};

template <class T>
concept Nest = TupleNest<T> || ArrayNest<T> || VectorNest<T> || MapNest<T> || OptionalNest<T>;

/// Text given as a pointer is kept as a string.
template <class T>
using decayed_t =
    std::conditional_t<std::is_same_v<std::decay_t<T>, const char*> || std::is_same_v<std::decay_t<T>, char*>,
                       std::string, std::decay_t<T>>;

/// `nest` with every leaf x replaced by f(x), in order: members, then elements, keys sorted. A struct keeps
/// its type, so f must keep its leaves' types.
template <class T, class F>
auto map_leaves(const T& nest, F&& f);

/// Sets a member of a struct to the mapped value.
template <class Member, class Mapped>
void set_member(Member& member, Mapped&& mapped) {
  static_assert(std::is_assignable_v<Member&, Mapped>,
                "a LOCKSTEP_NEST struct keeps its type when it is reduced, which makes Tensors of numbers: "
                "declare its members as Tensors, with Tensor::scalar(...) for numbers");
  member = std::forward<Mapped>(mapped);
}

template <class Tuple, class F, std::size_t... I>
auto map_tuple(const Tuple& tuple, F& f, std::index_sequence<I...>) {
  if constexpr (requires { tuple.first; }) {
    auto first = map_leaves(tuple.first, f);  // named: in order
    auto second = map_leaves(tuple.second, f);
    return std::pair<decltype(first), decltype(second)>(std::move(first), std::move(second));
  } else {
    return std::tuple<decltype(map_leaves(std::get<I>(tuple), f))...>{map_leaves(std::get<I>(tuple), f)...};
  }
}

template <class T, class F>
auto map_leaves(const T& nest, F&& f) {
  if constexpr (TupleNest<T>) {
    return map_tuple(nest, f, std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (ArrayNest<T>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      using Mapped = decltype(map_leaves(nest[0], f));
      return std::array<Mapped, sizeof...(I)>{map_leaves(nest[I], f)...};
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (VectorNest<T>) {
    std::vector<decltype(map_leaves(nest[0], f))> result;
    result.reserve(nest.size());
    for (const auto& element : nest) result.push_back(map_leaves(element, f));
    return result;
  } else if constexpr (MapNest<T>) {
    std::map<std::string, decltype(map_leaves(nest.begin()->second, f))> result;
    for (const auto& [key, element] : nest) result.emplace(key, map_leaves(element, f));
    return result;
  } else if constexpr (OptionalNest<T>) {
    using Mapped = decltype(map_leaves(*nest, f));
    return nest ? std::optional<Mapped>(map_leaves(*nest, f)) : std::optional<Mapped>();
  } else if constexpr (RecordNest<T>) {
    T result = nest;
    std::apply([&](auto&... member) { (set_member(member, map_leaves(member, f)), ...); },
               lockstep_nest_members(result));
    return result;
  } else {
    return f(nest);
  }
}

/// Calls f(leaf) in the order of map_leaves.
template <class T, class F>
void for_each_leaf(const T& nest, F&& f) {
  if constexpr (TupleNest<T>) {
    std::apply([&](const auto&... member) { (for_each_leaf(member, f), ...); }, nest);
  } else if constexpr (ArrayNest<T> || VectorNest<T>) {
    for (const auto& element : nest) for_each_leaf(element, f);
  } else if constexpr (MapNest<T>) {
    for (const auto& [key, element] : nest) for_each_leaf(element, f);
  } else if constexpr (OptionalNest<T>) {
    if (nest) for_each_leaf(*nest, f);
  } else if constexpr (RecordNest<T>) {
    std::apply([&](const auto&... member) { (for_each_leaf(member, f), ...); }, lockstep_nest_members(nest));
  } else {
    f(nest);
  }
}

/// Whether all nests of a type have the same leaves, that is, no lengths, keys or absences vary.
template <class T>
consteval bool has_fixed_structure() {
  if constexpr (TupleNest<T>) return []<std::size_t... I>(std::index_sequence<I...>) {
      return (has_fixed_structure<std::tuple_element_t<I, T>>() && ... && true);
    }
  (std::make_index_sequence<std::tuple_size_v<T>>());
  else if constexpr (ArrayNest<T>) return has_fixed_structure<typename T::value_type>();
  else return !VectorNest<T> && !MapNest<T> && !OptionalNest<T> && !RecordNest<T>;
}

/// Appends a key in such a way that later text cannot be mistaken for a part of it.
template <class Text>
void append_key(std::string_view key, Text& text) {
  for (const char c : key) {
    if (c == ':' || c == '}' || c == '\\' || c == '\0') text += '\\';
    text += c == '\0' ? '0' : c;
  }
  text += ": ";
}

/// Appends a nest's structure as text: "{a: *, b: [*, *]}". Other structures of the type have other texts.
template <class T, class Text>
void append_structure(const T& nest, Text& text) {
  const auto append_parts = [&](char open, char close, const auto& each) {
    text += open;
    const char* separator = "";
    each([&](const auto& part, const std::string* key) {
      text += separator;
      if (key) append_key(*key, text);
      append_structure(part, text);
      separator = ", ";
    });
    text += close;
  };
  if constexpr (TupleNest<T>) {
    append_parts('(', ')', [&](const auto& part) {
      std::apply([&](const auto&... member) { (part(member, nullptr), ...); }, nest);
    });
  } else if constexpr (ArrayNest<T> || VectorNest<T>) {
    append_parts('[', ']', [&](const auto& part) {
      for (const auto& element : nest) part(element, nullptr);
    });
  } else if constexpr (MapNest<T>) {
    append_parts('{', '}', [&](const auto& part) {
      for (const auto& [key, element] : nest) part(element, &key);
    });
  } else if constexpr (OptionalNest<T>) {
    if constexpr (OptionalNest<typename T::value_type>) text += nest ? "?" : "";
    if (nest)
      append_structure(*nest, text);
    else
      text += "none";
  } else if constexpr (RecordNest<T>) {
    append_parts('(', ')', [&](const auto& part) {
      std::apply([&](const auto&... member) { (part(member, nullptr), ...); }, lockstep_nest_members(nest));
    });
  } else {
    text += '*';
  }
}

/// The text of append_structure; empty if the type alone determines it.
template <class Text = std::string, class T>
Text describe_structure(const T& nest) {
  Text text;
  if constexpr (!has_fixed_structure<T>()) append_structure(nest, text);
  return text;
}

}  // namespace lockstep::detail

#pragma GCC visibility pop

/// Makes a struct a nest of the named members: `LOCKSTEP_NEST(Batch, images, labels)` beside the struct, in
/// its namespace, with at most 342 members. `run` then returns a `PerReplica<Batch>`. Reductions work member
/// by member and return the same struct, so its members must be Tensors, not numbers.
#define LOCKSTEP_NEST(Type, ...)                                                 \
  template <class T> /* exactly Type: values that convert to it are not meant */ \
  requires std::same_as<std::remove_const_t<T>, Type>                            \
  auto lockstep_nest_members(T& value) { return LOCKSTEP_NEST_APPLY_(Type, value, __VA_ARGS__); }
#define LOCKSTEP_NEST_APPLY_(Type, value, ...)                                                            \
  [](auto& lockstep_nest_value, auto... pointers) { return std::tie(lockstep_nest_value.*pointers...); }( \
      value, LOCKSTEP_NEST_POINTERS_(Type, __VA_ARGS__))
#define LOCKSTEP_NEST_PARENS_ ()
// The preprocessor expands it once for each member but the first. A remaining name states the limit in the
// compiler's error.
#define LOCKSTEP_NEST_EXPAND_(...) \
  LOCKSTEP_NEST_EXPAND1_(LOCKSTEP_NEST_EXPAND1_(LOCKSTEP_NEST_EXPAND1_(LOCKSTEP_NEST_EXPAND1_(__VA_ARGS__))))
#define LOCKSTEP_NEST_EXPAND1_(...) \
  LOCKSTEP_NEST_EXPAND2_(LOCKSTEP_NEST_EXPAND2_(LOCKSTEP_NEST_EXPAND2_(LOCKSTEP_NEST_EXPAND2_(__VA_ARGS__))))
#define LOCKSTEP_NEST_EXPAND2_(...) \
  LOCKSTEP_NEST_EXPAND3_(LOCKSTEP_NEST_EXPAND3_(LOCKSTEP_NEST_EXPAND3_(LOCKSTEP_NEST_EXPAND3_(__VA_ARGS__))))
#define LOCKSTEP_NEST_EXPAND3_(...) \
  LOCKSTEP_NEST_EXPAND4_(LOCKSTEP_NEST_EXPAND4_(LOCKSTEP_NEST_EXPAND4_(LOCKSTEP_NEST_EXPAND4_(__VA_ARGS__))))
#define LOCKSTEP_NEST_EXPAND4_(...) __VA_ARGS__
#define LOCKSTEP_NEST_POINTERS_(Type, ...) LOCKSTEP_NEST_EXPAND_(LOCKSTEP_NEST_POINTER_(Type, __VA_ARGS__))
#define LOCKSTEP_NEST_POINTER_(Type, member, ...) \
  &Type::member __VA_OPT__(, LOCKSTEP_NEST_has_at_most_342_members LOCKSTEP_NEST_PARENS_(Type, __VA_ARGS__))
#define LOCKSTEP_NEST_has_at_most_342_members() LOCKSTEP_NEST_POINTER_

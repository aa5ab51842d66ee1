#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/detail/nest_types.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

/// Nests on their way into replicas (select) and out of them (merge). Leaves: PerReplica, Mirrored and
/// Variable are distributed, everything else is one object for all replicas.
namespace lockstep::detail {

// These throw InvalidArgument.
[[noreturn]] void raise_wrong_num_components(std::string_view what, int size, int num_replicas);
[[noreturn]] void raise_different_lengths(std::string_view what, std::size_t replica, std::size_t length,
                                          std::size_t first_length);
[[noreturn]] void raise_different_keys(std::string_view what, std::size_t replica);
[[noreturn]] void raise_different_variables(std::string_view what, std::size_t replica,
                                            const Variable& variable, const Variable& first);
[[noreturn]] void raise_mixed_num_components(std::string_view what, int size, int other);

/// Replica i's component. A mirrored value with one component is a plain one.
template <DistributedLeaf Leaf>
decltype(auto) select_one(const Leaf& leaf, int replica) {
  return leaf[is_mirrored<Leaf>::value && leaf.size() == 1 ? 0 : replica];
}

/// Replica i's part of an argument: component i of distributed leaves (a Variable stays), everything else as
/// it is.
template <class T>
auto select(const T& nest, int replica) {
  return map_leaves(nest, [replica](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (DistributedLeaf<Leaf>)
      return typename Leaf::value_type(select_one(leaf, replica));
    else
      return decayed_t<Leaf>(leaf);
  });
}
template <class T>
using selected_t = decltype(select(std::declval<const decayed_t<T>&>(), 0));

/// @throws InvalidArgument  a distributed leaf has another number of components.
template <class T>
void check_num_components(const T& nest, int num_replicas, std::string_view what) {
  for_each_leaf(nest, [&](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (DistributedLeaf<Leaf>)
      if (leaf.size() != num_replicas && !(is_mirrored<Leaf>::value && leaf.size() == 1))
        raise_wrong_num_components(what, leaf.size(), num_replicas);
  });
}

template <class T>
bool same_object(const RecycledVector<T*>& parts) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Tensor>) {
    for (const Tensor* part : parts)
      if (!part->defined() || !part->is_same_object(*parts[0])) return false;
    return true;
  } else {
    return false;
  }
}

/// Merges the replicas' results leaf by leaf, in replica order: containers of equal structure stay
/// containers, leaves become PerReplica, a variable stays the variable. Leaves are moved out of parts that
/// are not const.
/// @throws InvalidArgument  structures or variables differ: names the replicas.
template <class Part>
auto merge(const RecycledVector<Part*>& parts, std::string_view what);

template <class Part, class Member>
auto merge_member(const RecycledVector<Part*>& parts, std::string_view what, Member member) {
  RecycledVector<decltype(&member(*parts[0]))> members;
  members.reserve(parts.size());
  for (Part* part : parts) members.push_back(&member(*part));
  return merge(members, what);
}

template <class Map>
bool have_equal_keys(const Map& a, const Map& b) {
  if (a.size() != b.size()) return false;
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j)
    if (i->first != j->first) return false;
  return true;
}

template <class Part>
auto merge(const RecycledVector<Part*>& parts, std::string_view what) {
  using T = std::remove_const_t<Part>;
  if constexpr (TupleNest<T>) {
    if constexpr (requires(T & pair) { pair.first; }) {
      auto first = merge_member(
          parts, what, [](Part & pair) -> auto& { return pair.first; });
      auto second = merge_member(
          parts, what, [](Part & pair) -> auto& { return pair.second; });
      return std::pair<decltype(first), decltype(second)>(std::move(first), std::move(second));
    } else {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        auto part = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
          return merge_member(
              parts, what, [](Part & tuple) -> auto& { return std::get<K>(tuple); });
        };
        return std::tuple<decltype(part(std::integral_constant<std::size_t, I>()))...>{
            part(std::integral_constant<std::size_t, I>())...};
      }
      (std::make_index_sequence<std::tuple_size_v<T>>());
    }
  } else if constexpr (ArrayNest<T>) {
    auto part = [&](std::size_t k) {
      return merge_member(
          parts, what, [k](Part & array) -> auto& { return array[k]; });
    };
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<decltype(part(0)), sizeof...(I)>{part(I)...};
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (VectorNest<T>) {
    for (std::size_t r = 1; r < parts.size(); ++r)
      if (parts[r]->size() != parts[0]->size())
        raise_different_lengths(what, r, parts[r]->size(), parts[0]->size());
    auto part = [&](std::size_t k) {
      return merge_member(
          parts, what, [k](Part & vector) -> auto& { return vector[k]; });
    };
    std::vector<decltype(part(0))> result;
    result.reserve(parts[0]->size());
    for (std::size_t k = 0; k < parts[0]->size(); ++k) result.push_back(part(k));
    return result;
  } else if constexpr (MapNest<T>) {
    for (std::size_t r = 1; r < parts.size(); ++r)
      if (!have_equal_keys(*parts[r], *parts[0])) raise_different_keys(what, r);
    auto part = [&](const std::string& key) {
      return merge_member(
          parts, what, [&key](Part & map) -> auto& { return map.find(key)->second; });
    };
    std::map<std::string, decltype(part(std::string()))> result;
    for (const auto& [key, element] : *parts[0]) result.emplace(key, part(key));
    return result;
  } else if constexpr (std::is_same_v<T, Variable>) {
    for (std::size_t r = 1; r < parts.size(); ++r)
      if (!(*parts[r] == *parts[0])) raise_different_variables(what, r, *parts[r], *parts[0]);
    return *parts[0];
  } else {
    const bool is_same_object = same_object(parts);
    RecycledVector<T> components;
    components.reserve(parts.size());
    for (Part* part : parts) components.push_back(std::move(*part));
    return ValueAccess::per_replica(std::move(components), is_same_object);
  }
}
template <class T>
using merged_t =
    decltype(merge(std::declval<const RecycledVector<const decayed_t<T>*>&>(), std::string_view()));

/// Merges results that replicas left in a list, and moves them from there.
template <class T>
auto merge_results(RecycledVector<std::optional<T>>& results, std::string_view what) {
  RecycledVector<T*> parts;
  parts.reserve(results.size());
  for (std::optional<T>& result : results) parts.push_back(&*result);
  return merge(parts, what);
}

/// Components of a leaf; 1 of one that is not distributed.
template <class Leaf>
int leaf_size(const Leaf& leaf) {
  if constexpr (DistributedLeaf<Leaf>)
    return leaf.size();
  else if constexpr (std::is_same_v<Leaf, Variable>)
    return static_cast<int>(VariableAccess::devices(leaf).size());
  else
    return 1;
}

/// The components of a nest: those of its distributed leaves, of which single ones count for all replicas;
/// `otherwise` without distributed leaves.
/// @throws InvalidArgument  leaves differ in their numbers, or a per-replica one has fewer.
template <class T>
int num_components(const T& nest, int otherwise, std::string_view what) {
  int n = 0;
  for_each_leaf(nest, [&](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (DistributedLeaf<Leaf> || std::is_same_v<Leaf, Variable>)
      n = leaf_size(leaf) > n ? leaf_size(leaf) : n;
  });
  for_each_leaf(nest, [&](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    const int size = leaf_size(leaf);
    if (size != n && (size != 1 || is_per_replica<Leaf>::value)) raise_mixed_num_components(what, size, n);
  });
  return n > 0 ? n : otherwise;
}

/// The length of the tensors' first axis. @param what  the call that messages name.
/// @throws InvalidArgument  no tensors, a scalar, different numbers of rows.
std::int64_t num_rows(const std::vector<Tensor>& tensors, std::string_view what);

/// Whether a nest type has distributed leaves.
template <class T>
consteval bool has_distributed_leaf() {
  if constexpr (DistributedLeaf<T> || std::is_same_v<T, Variable>)
    return true;
  else if constexpr (TupleNest<T>)
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (has_distributed_leaf<std::tuple_element_t<I, T>>() || ... || false);
    }
  (std::make_index_sequence<std::tuple_size_v<T>>());
  else if constexpr (ArrayNest<T> || VectorNest<T> ||
                     OptionalNest<T>) return has_distributed_leaf<typename T::value_type>();
  else if constexpr (MapNest<T>) return has_distributed_leaf<typename T::mapped_type>();
  else return false;
}

}  // namespace lockstep::detail

#pragma GCC visibility pop

#pragma once

#include <any>
#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/detail/nest_types.hpp>
#include <lockstep/input/detail/pipeline.hpp>

#pragma GCC visibility push(default)

/// Conversion between elements of a static type and lists of tensors.
namespace lockstep::detail {

/// Whether every leaf of a nest type is a Tensor.
template <class T>
consteval bool is_tensor_nest() {
  if constexpr (std::is_same_v<T, Tensor>)
    return true;
  else if constexpr (TupleNest<T>)
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (is_tensor_nest<std::tuple_element_t<I, T>>() && ...);
    }
  (std::make_index_sequence<std::tuple_size_v<T>>());
  else if constexpr (ArrayNest<T> || VectorNest<T> ||
                     OptionalNest<T>) return is_tensor_nest<typename T::value_type>();
  else if constexpr (MapNest<T>) return is_tensor_nest<typename T::mapped_type>();
  else if constexpr (RecordNest<T>) return []<class... Members>(std::type_identity<std::tuple<Members...>>) {
    return (is_tensor_nest<std::remove_cvref_t<Members>>() && ...);
  }(std::type_identity<decltype(lockstep_nest_members(std::declval<T&>()))>());
  else return false;
}

/// A nest whose leaves are Tensors.
template <class T>
concept TensorNest = is_tensor_nest<T>();

/// The tensors of a nest, in order.
template <TensorNest T>
std::vector<Tensor> flatten(const T& nest) {
  std::vector<Tensor> leaves;
  for_each_leaf(nest, [&](const Tensor& leaf) { leaves.push_back(leaf); });
  return leaves;
}

/// The nest with other tensors; if the list is too short, the remaining tensors are empty.
template <TensorNest T>
T unflatten(const T& structure, std::vector<Tensor>&& leaves) {
  std::size_t next = 0;
  return map_leaves(
      structure, [&](const Tensor&) { return next < leaves.size() ? std::move(leaves[next++]) : Tensor(); });
}

/// The nest without its data.
template <TensorNest T>
T structure_of(const T& nest) {
  return map_leaves(nest, [](const Tensor&) { return Tensor(); });
}

/// The type of elements with the structure of this one.
template <TensorNest E>
ElementType known_type(const E& element) {
  const E structure = structure_of(element);
  return {&typeid(E), flatten(structure).size(), [structure] { return std::any(structure); },
          [structure] { return describe_structure(structure); }};
}

/// Whether all elements of a type have the same leaves.
template <class E>
inline constexpr bool kIsFixed = has_fixed_structure<E>() && std::default_initializable<E>;

/// Makes a pipeline's element from its tensors.
template <TensorNest E>
E unflatten_element(const ElementType& type, FlatElement&& leaves) {
  if constexpr (kIsFixed<E>)
    return unflatten(E{}, std::move(leaves));
  else
    return unflatten(std::any_cast<const E&>(type.structure()), std::move(leaves));
}

/// The type of tuples of other pipelines' elements.
template <class... E>
ElementType tuple_type(const std::array<ElementType, sizeof...(E)>& types) {
  return std::apply(
      [](const auto&... part) {
        const bool is_known = (... && (part.num_leaves > 0));
        const SharedFunction<std::any()> structure = [part...] {
          const auto join = [](const auto&... any) {
            return (... && any.has_value()) ? std::any(std::tuple<E...>(std::any_cast<const E&>(any)...))
                                            : std::any();
          };
          return join(part.structure()...);
        };
        return ElementType{
            &typeid(std::tuple<E...>), is_known ? (... + part.num_leaves) : 0, structure, [structure] {
              const std::any known = structure();
              return known.has_value() ? describe_structure(std::any_cast<const std::tuple<E...>&>(known))
                                       : std::string();
            }};
      },
      types);
}

}  // namespace lockstep::detail

#pragma GCC visibility pop

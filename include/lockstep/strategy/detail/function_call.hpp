#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/strategy/detail/replica_function.hpp>
#include <lockstep/values/nest.hpp>

#pragma GCC visibility push(default)

/// Calls of Strategy::function's results, without their types.
namespace lockstep::detail {

/// What a call has in common with others that one trace serves: the arguments' structure, the dtypes, shapes
/// and devices of tensors, the identity of variables, and the values of all else.
class FunctionSignature {
 public:
  void add(std::uint64_t word) { words_.push_back(word); }
  void add(std::string_view bytes);
  void add(const Tensor& tensor);
  void add(const Variable& variable);
  /// Where a tensor's elements are.
  void add_place(const Tensor& tensor);

  const RecycledVector<std::uint64_t>& words() const noexcept { return words_; }
  /// Those that the words name.
  const RecycledVector<Variable>& variables() const noexcept { return variables_; }

 private:
  RecycledVector<std::uint64_t> words_;
  RecycledVector<Variable> variables_;
};

struct FunctionCall {
  FunctionSignature signature;
  RecycledVector<Tensor> inputs;       ///< The arguments' tensors, replica by replica.
  RecycledVector<std::size_t> begins;  ///< [num_local_replicas + 1]: those of replica i begin at begins[i].

  /// Calls the function as replica i, with its inputs replaced by these, and keeps its result.
  FunctionRef<void(ReplicaContext&, int, const Tensor*)> run_replica;
  /// Passes each tensor of replica i's result, to be replaced.
  FunctionRef<void(int, FunctionRef<void(Tensor&)>)> for_each_result;
  /// A copy of all results, and the way back.
  FunctionRef<std::shared_ptr<const void>()> copy_results;
  FunctionRef<void(const void*)> set_results;
};

/// An address for each list of types.
template <class...>
inline constexpr char kTypesId = 0;

template <class T>
struct is_host_vector : std::false_type {};
template <HostScalar T>
struct is_host_vector<std::vector<T>> : std::true_type {};

template <class T>
void add_to_signature(const T& nest, FunctionSignature& signature);

template <class Leaf>
void add_leaf_to_signature(const Leaf& leaf, FunctionSignature& signature) {
  if constexpr (std::is_same_v<Leaf, Tensor> || std::is_same_v<Leaf, Variable> ||
                std::is_convertible_v<const Leaf&, std::string_view>) {
    signature.add(leaf);
  } else if constexpr (DistributedLeaf<Leaf>) {
    signature.add(static_cast<std::uint64_t>(leaf.size()));
    for (const auto& component : leaf) add_to_signature(component, signature);
  } else if constexpr (is_host_vector<Leaf>::value) {
    signature.add(leaf.size());
    for (const auto element : leaf) add_leaf_to_signature(element, signature);
  } else {
    static_assert(
        HostScalar<Leaf> || std::is_enum_v<Leaf>,
        "the arguments of a function of a strategy are Tensors, variables, numbers and text, or nests "
        "of them: capture all else in the function, or register a struct with LOCKSTEP_NEST");
    signature.add(std::string_view(reinterpret_cast<const char*>(&leaf), sizeof leaf));
  }
}

template <class T>
void add_to_signature(const T& nest, FunctionSignature& signature) {
  if constexpr (!has_fixed_structure<T>())
    signature.add(std::string_view(describe_structure<RecycledString>(nest)));
  for_each_leaf(nest, [&](const auto& leaf) { add_leaf_to_signature(leaf, signature); });
}

/// Appends the tensors that replica i gets, in the order of function_argument.
template <class Arg>
void append_inputs(const Arg& arg, int i, RecycledVector<Tensor>& inputs) {
  for_each_leaf(arg, [&](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (DistributedLeaf<Leaf>)
      append_inputs(select_one(leaf, i), i, inputs);
    else if constexpr (std::is_same_v<Leaf, Tensor>)
      inputs.push_back(leaf);
  });
}

/// Replica i's part of an argument, with its tensors replaced by the next inputs.
template <class Arg>
auto function_argument(const Arg& arg, int i, const Tensor*& next) {
  return map_leaves(select<decayed_t<Arg>>(arg, i), [&](const auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
      return *next++;
    else
      return leaf;
  });
}

/// The members of a tuple, or of a struct, as a tuple.
template <class T>
struct members_of {
  using type = T;
};
template <RecordNest T>
struct members_of<T> {
  using type = decltype(lockstep_nest_members(std::declval<T&>()));
};

/// Whether all leaves of a result are Tensors or variables.
template <class T>
consteval bool has_only_tensors() {
  if constexpr (TupleNest<T> || RecordNest<T>) {
    using Members = typename members_of<T>::type;
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (has_only_tensors<std::remove_cvref_t<std::tuple_element_t<I, Members>>>() && ... && true);
    }
    (std::make_index_sequence<std::tuple_size_v<Members>>());
  } else if constexpr (ArrayNest<T> || VectorNest<T> || OptionalNest<T>) {
    return has_only_tensors<typename T::value_type>();
  } else if constexpr (MapNest<T>) {
    return has_only_tensors<typename T::mapped_type>();
  } else {
    return std::is_same_v<T, Tensor> || std::is_same_v<T, Variable> || std::is_void_v<T>;
  }
}

}  // namespace lockstep::detail

#pragma GCC visibility pop

#pragma once

#include <any>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/detail/nest_types.hpp>
#include <lockstep/detail/pipeline.hpp>

namespace lockstep {

template <class E>
class TypedDataset;

namespace detail {

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

/// The nest with other tensors. @pre as many as it has.
template <TensorNest T>
T unflatten(const T& structure, std::vector<Tensor>&& leaves) {
  std::size_t next = 0;
  return map_leaves(structure, [&](const Tensor&) { return std::move(leaves[next++]); });
}

/// The nest without its data.
template <TensorNest T>
T structure_of(const T& nest) {
  return map_leaves(nest, [](const Tensor&) { return Tensor(); });
}

class DatasetHandle {
 public:
  explicit DatasetHandle(PipelineHandle pipeline) : pipeline_(std::move(pipeline)) {}
  DatasetHandle(const DatasetHandle&) = default;  // and no move: a handle is never empty
  DatasetHandle& operator=(const DatasetHandle&) = default;

  /// For the library.
  const PipelineHandle& pipeline() const noexcept { return pipeline_; }

 private:
  PipelineHandle pipeline_;
};

/// What a dataset's elements can be turned into without changing their type. `Self` is the dataset's type,
/// `Base` what it adds these to: a typed dataset's hide the untyped one's.
template <class Self, class Base>
class Transformations : public Base {
 public:
  using Base::Base;

  /// As the count of `repeat`: without end.
  static constexpr std::int64_t forever = kForever;

  /// The elements in random order: each is drawn from a buffer of the next `buffer_size` ones, so that a
  /// buffer as large as the dataset gives every order alike. Each pass has another order. The sequence of
  /// orders depends on `seed` only; without one it differs from run to run. @throws InvalidArgument
  /// buffer_size < 1.
  Self shuffle(std::int64_t buffer_size, std::optional<std::uint64_t> seed = {}) const {
    return Self(shuffled(this->pipeline(), buffer_size, seed));
  }
  /// `batch_size` elements at a time, stacked along a new first axis. The last batch may have fewer rows;
  /// with drop_remainder it is left out if so. @throws InvalidArgument  batch_size < 1; on `next`, elements
  /// of different shapes or dtypes.
  Self batch(std::int64_t batch_size, bool drop_remainder = false) const {
    return Self(batched(this->pipeline(), batch_size, drop_remainder));
  }
  /// `count` passes, one after the other. A dataset without elements ends at once, also forever.
  /// @throws InvalidArgument  count is negative and not `forever`.
  Self repeat(std::int64_t count = forever) const { return Self(repeated(this->pipeline(), count)); }
  /// The first `count` elements. @throws InvalidArgument  count < 0.
  Self take(std::int64_t count) const { return Self(taken(this->pipeline(), count)); }
  /// All but the first `count` elements. @throws InvalidArgument  count < 0.
  Self skip(std::int64_t count) const { return Self(skipped(this->pipeline(), count)); }
};

}  // namespace detail

/// A sequence of elements, each a nest of tensors; this handle has forgotten their static type.
///
/// A cheap handle to an immutable description: nothing is read before a pass starts, and each pass is
/// independent. Copies may be used from several threads. Elements are made on the host (CPU:0); they are
/// copies, so writing to one changes nothing else.
class Dataset : public detail::Transformations<Dataset, detail::DatasetHandle> {
 public:
  using Transformations::Transformations;

  /// One element for each index of the first axis, of one tensor or of all tensors of a nest together.
  ///
  /// Tensors on the host are shared, not copied: do not write to them while the dataset is in use.
  /// @return elements of the nest's type. @throws InvalidArgument  a scalar, different numbers of rows, no
  /// tensors at all.
  template <detail::TensorNest E>
  static TypedDataset<E> from_tensor_slices(const E& nest);
  /// The same for a tuple of the arguments.
  template <detail::TensorNest... E>
  requires(sizeof...(E) > 1) static TypedDataset<std::tuple<E...>> from_tensor_slices(const E&... nests) {
    return from_tensor_slices(std::tuple<E...>(nests...));
  }

  /// The i64 scalars 0, 1, … below stop.
  static TypedDataset<Tensor> range(std::int64_t stop);
  /// The i64 scalars start, start + step, … below (above, with a negative step) stop.
  /// @throws InvalidArgument  step is 0.
  static TypedDataset<Tensor> range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);

  /// The typed form. @throws InvalidArgument  the elements are not `E`.
  template <detail::TensorNest E>
  TypedDataset<E> as() const;
};

/// A Dataset whose elements are `E`. Copying it to a Dataset forgets `E`; `as<E>()` gives it back.
template <class E>
class TypedDataset : public detail::Transformations<TypedDataset<E>, Dataset> {
  using detail::Transformations<TypedDataset<E>, Dataset>::Transformations;
};

template <detail::TensorNest E>
TypedDataset<E> Dataset::from_tensor_slices(const E& nest) {
  return TypedDataset<E>(detail::slices_pipeline(detail::flatten(nest), detail::structure_of(nest),
                                                 "Dataset::from_tensor_slices"));
}

inline TypedDataset<Tensor> Dataset::range(std::int64_t stop) { return range(0, stop); }

inline TypedDataset<Tensor> Dataset::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  return TypedDataset<Tensor>(detail::range_pipeline(start, stop, step));
}

template <detail::TensorNest E>
TypedDataset<E> Dataset::as() const {
  detail::check_element_type(*pipeline(), typeid(E));
  return TypedDataset<E>(pipeline());
}

}  // namespace lockstep

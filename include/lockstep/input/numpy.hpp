#pragma once

#include <filesystem>
#include <vector>

#include <lockstep/input/dataset.hpp>

#pragma GCC visibility push(default)

/// Datasets of arrays in memory or in NumPy's files, for Strategy::make_numpy_dataset.
namespace lockstep::detail {

/// Stacks a list of tensors to one tensor, along a new first axis.
/// @throws InvalidArgument  there are no tensors, or shapes or dtypes differ; names `what`.
Tensor stack(const std::vector<Tensor>& tensors, std::string_view what);
/// A contiguous copy on the host, even if the tensor is there already.
Tensor copy_to_host(const Tensor& tensor);

/// A nest of arrays copied to the host, each list of tensors stacked.
template <class T>
auto stack_lists(const T& nest) {
  if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    return stack(nest, "make_numpy_dataset of a list");
  } else if constexpr (TupleNest<T>) {
    return std::apply(
        [](const auto&... member) {
          using Members = std::tuple<decltype(stack_lists(member))...>;
          if constexpr (requires { typename T::first_type; })
            return std::make_from_tuple<std::pair<decltype(stack_lists(member))...>>(
                Members{stack_lists(member)...});
          else
            return Members{stack_lists(member)...};
        },
        nest);
  } else if constexpr (MapNest<T>) {
    std::map<std::string, decltype(stack_lists(nest.begin()->second))> result;
    for (const auto& [key, member] : nest) result.emplace(key, stack_lists(member));
    return result;
  } else {
    return map_leaves(nest, [](const Tensor& leaf) { return copy_to_host(leaf); });
  }
}

/// Copies the arrays to the host; elements are slices along the first axis. A list of tensors is stacked
/// first, so that its elements are the tensors.
/// @throws InvalidArgument  an array is a scalar, the numbers of rows differ, or a list's tensors differ in
/// shape or dtype.
template <TensorNest T>
auto make_numpy_dataset(const T& nest) {
  auto arrays = stack_lists(nest);
  using E = decltype(arrays);
  return TypedDataset<E>(slices_pipeline(flatten(arrays), known_type(arrays), "make_numpy_dataset"));
}

/// The rows of a .npy file, of which each element is a Tensor; or the rows of a .npz file's arrays together,
/// of which each element is a std::map<std::string, Tensor>. The file's first bytes decide which.
/// @throws as load_npy, load_npz; InvalidArgument  an array is a scalar, the numbers of rows differ, or there
/// are no arrays.
Dataset make_numpy_dataset(const std::filesystem::path& path);

}  // namespace lockstep::detail

#pragma GCC visibility pop

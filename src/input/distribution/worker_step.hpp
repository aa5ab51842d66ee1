#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/pipeline/pipeline.hpp"

/// The messages that workers exchange about a step, and the decision that they derive from them.
namespace lockstep::detail {

/// One worker's state at a step.
struct WorkerStep {
  bool has_data = false;               ///< Whether any replica has an element.
  bool is_whole = false;               ///< Whether all replicas have an element.
  std::vector<LeafType> leaves{};      ///< Leaves of the first element.
  bool knows_structure = true;         ///< Whether elements without rows can take the dataset's type.
  std::optional<std::string> error{};  ///< The reason for which it could not read.
};

/// @param who  the owner of the elements: "worker" or "replica". @param first, index  numbers of the two
/// owners.
/// @throws CollectiveMismatch  the elements differ in number of components or dtype.
void check_same_leaves(std::string_view who, std::size_t first, const std::vector<LeafType>& expected,
                       std::size_t index, const std::vector<LeafType>& leaves);

std::string to_message(const WorkerStep& step);
/// @throws CollectiveError  a message does not come from to_message.
std::vector<WorkerStep> from_messages(const std::vector<std::string>& messages);

/// The leaves of a step's elements; nothing: there is no such step, and the pass ends. All workers get the
/// same result from the same messages.
/// @param fills_with_empty  whether replicas without an element get one without rows; if not, a step without
/// an element for every replica does not exist.
/// @throws CollectiveError  a worker could not read. @throws CollectiveMismatch  the workers' elements differ
/// in number of components or dtype. @throws InvalidArgument  a scalar is missing its rows. @throws
/// ContextError  a worker without data does not know the structure.
std::optional<std::vector<LeafType>> agree_on_leaves(const std::vector<WorkerStep>& workers,
                                                     bool fills_with_empty);

}  // namespace lockstep::detail

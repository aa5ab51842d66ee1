#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/pipeline/pipeline.hpp"

/// What workers tell each other of a step, and what they conclude.
namespace lockstep::detail {

/// What one worker has for a step.
struct WorkerStep {
  bool has_data = false;               ///< Whether any replica has an element.
  bool is_whole = false;               ///< Whether all have.
  std::vector<LeafType> leaves{};      ///< Of the first element.
  bool knows_structure = true;         ///< Whether elements without rows can be made into the dataset's type.
  std::optional<std::string> error{};  ///< Why it could not read.
};

/// @param who  whose elements: "worker", "replica". @param first, index  their numbers.
/// @throws CollectiveMismatch  the elements differ in number of components or dtype.
void check_same_leaves(std::string_view who, std::size_t first, const std::vector<LeafType>& expected,
                       std::size_t index, const std::vector<LeafType>& leaves);

std::string to_message(const WorkerStep& step);
/// @throws CollectiveError  messages that are not to_message's.
std::vector<WorkerStep> from_messages(const std::vector<std::string>& messages);

/// The leaves of a step's elements; nothing: there is no step, and the pass ends. All workers conclude the
/// same from the same steps.
/// @param fills_with_empty  whether replicas without an element get one without rows; false: a step that is
/// not whole does not exist.
/// @throws CollectiveError  a worker could not read. @throws CollectiveMismatch  the workers' elements differ
/// in number of components or dtype. @throws InvalidArgument  scalars where rows are missing. @throws
/// ContextError  a worker without data that does not know the structure.
std::optional<std::vector<LeafType>> conclude(const std::vector<WorkerStep>& workers, bool fills_with_empty);

}  // namespace lockstep::detail

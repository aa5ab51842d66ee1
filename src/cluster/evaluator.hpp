#pragma once

#include <string_view>

#include <lockstep/cluster/cluster_spec.hpp>

namespace lockstep::detail {

inline constexpr std::string_view kEvaluator = "evaluator";

/// Whether the task is an evaluator that its cluster does not list: it works alone beside the training
/// cluster, and has no address.
inline bool is_evaluator_outside(const cluster::ClusterSpec& spec, const cluster::Task& task) {
  return task.type == kEvaluator && task.index >= 0 && !spec.contains(kEvaluator);
}

}  // namespace lockstep::detail

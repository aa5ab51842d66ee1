#pragma once

#include <string_view>

#include <lockstep/cluster/environment.hpp>

namespace lockstep::detail {

/// Warns that a strategy stays in this process though TF_CONFIG describes a cluster, if it does.
void warn_if_cluster_is_ignored(std::string_view strategy, const cluster::EnvironmentVariables& variables);

}  // namespace lockstep::detail

#pragma once

#include <string_view>

#include <lockstep/cluster/environment.hpp>

namespace lockstep::detail {

/// Warns, if TF_CONFIG describes a cluster, that the strategy ignores it and stays in this process.
void warn_if_cluster_is_ignored(std::string_view strategy, const cluster::EnvironmentVariables& variables);

}  // namespace lockstep::detail

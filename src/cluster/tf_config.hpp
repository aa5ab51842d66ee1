#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/cluster/cluster_spec.hpp>

namespace lockstep::detail {

/// The contents of the environment variable TF_CONFIG.
struct TfConfig {
  cluster::ClusterSpec cluster;
  std::optional<std::string> task_type;
  std::optional<int> task_id;
  std::optional<std::string> rpc_layer;
  std::optional<std::string> session_master;
};

/// Parses the text without trusting it. @throws InvalidArgument  it is not JSON, or has another form: says
/// where.
TfConfig parse_tf_config(std::string_view text);

}  // namespace lockstep::detail

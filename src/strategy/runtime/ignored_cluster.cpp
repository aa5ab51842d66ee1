#include "strategy/runtime/ignored_cluster.hpp"

#include <lockstep/cluster/tf_config_resolver.hpp>
#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/warn.hpp"

namespace lockstep::detail {

void warn_if_cluster_is_ignored(std::string_view strategy, const cluster::EnvironmentVariables& variables) {
  try {
    if (cluster::TfConfigResolver({}, variables).cluster_spec().empty()) return;
  } catch (const InvalidArgument&) {  // the strategy ignores invalid text, too
  }
  warn(concat(strategy, ": the environment variable TF_CONFIG is ignored; the replicas are this process's"));
}

}  // namespace lockstep::detail

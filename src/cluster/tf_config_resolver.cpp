#include <lockstep/cluster/tf_config_resolver.hpp>
#include <lockstep/device_manager.hpp>

#include "cluster/evaluator.hpp"
#include "cluster/launcher_variables.hpp"
#include "cluster/tf_config.hpp"

namespace lockstep::cluster {
namespace {

detail::TfConfig read(const EnvironmentVariables& variables) {
  const std::string* const text = detail::find_variable(variables, "TF_CONFIG");
  return text ? detail::parse_tf_config(*text) : detail::TfConfig();
}

/// The options, completed from the variable.
ResolverOptions merge(const detail::TfConfig& config, ResolverOptions options) {
  if (!options.task_type) options.task_type = config.task_type;
  if (!options.task_id) options.task_id = config.task_id;
  if (!options.rpc_layer) options.rpc_layer = config.rpc_layer;
  if (options.master.empty()) options.master = config.session_master.value_or("");
  return options;
}

}  // namespace

TfConfigResolver::TfConfigResolver(ResolverOptions options, const EnvironmentVariables& variables)
    : TfConfigResolver(read(variables), std::move(options)) {}

TfConfigResolver::TfConfigResolver(detail::TfConfig&& config, ResolverOptions&& options)
    : Resolver(merge(config, std::move(options))),
      spec_(std::move(config.cluster)),
      session_master_(std::move(config.session_master)) {}

std::string TfConfigResolver::default_master() const {
  const std::optional<Task> task = current_task();
  const bool is_outside = task && detail::is_evaluator_outside(spec_, *task);
  if (!options().master.empty() || spec_.num_tasks() <= 1 || is_outside) return options().master;
  return current_task_address();
}

std::string TfConfigResolver::task_master(const std::string& type, int id) const {
  return session_master_ ? *session_master_ : Resolver::task_master(type, id);
}

AcceleratorCounts TfConfigResolver::accelerators_of(const std::optional<Task>& task) const {
  if (!options().num_accelerators.empty() || task != current_task()) return Resolver::accelerators_of(task);
  const std::size_t num_gpus = DeviceManager::instance().devices(DeviceKind::gpu).size();
  if (num_gpus == 0) return {};
  return {{std::string(name(DeviceKind::gpu)), static_cast<int>(num_gpus)}};
}

ClusterSpec TfConfigResolver::cluster_spec() const { return spec_; }

}  // namespace lockstep::cluster

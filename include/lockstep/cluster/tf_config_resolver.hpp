#pragma once

#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/resolver.hpp>

#pragma GCC visibility push(default)

namespace lockstep::detail {
struct TfConfig;
}

namespace lockstep::cluster {

/// The cluster in the environment variable TF_CONFIG, a JSON object:
/// `{"cluster": {"worker": ["w0:2222", "w1:2222"]}, "task": {"type": "worker", "index": 0}}`, and optionally
/// "rpc_layer" and "session_master". A job's tasks are a list or an object from index to address. A type that
/// is a number is read as text, and an index that is text as a number; null counts as missing; other keys are
/// ignored.
///
/// `master()` is the option, else the session master, else "" if the cluster has at most one task in all or
/// the current task is an evaluator that the cluster does not list, else the address of the current task. A
/// session master is also the master of every task. Without the option, `num_accelerators` is known for the
/// current task only: the GPUs of this process (DeviceManager).
class TfConfigResolver : public Resolver {
 public:
  /// Reads the variable once. If it is not set or blank, the cluster is empty and has no current task.
  /// Options that are not empty override it.
  /// @throws InvalidArgument  TF_CONFIG is not JSON or not of this form: says where; or an option is out of
  /// its range.
  explicit TfConfigResolver(ResolverOptions options = {},
                            const EnvironmentVariables& variables = environment_variables());

  ClusterSpec cluster_spec() const override;

 protected:
  /// @throws InvalidArgument  the cluster has several tasks and the current one is unknown.
  std::string default_master() const override;
  std::string task_master(const std::string& type, int id) const override;
  AcceleratorCounts accelerators_of(const std::optional<Task>& task) const override;

 private:
  TfConfigResolver(detail::TfConfig&& config, ResolverOptions&& options);

  ClusterSpec spec_;
  std::optional<std::string> session_master_;
};

}  // namespace lockstep::cluster

#pragma GCC visibility pop

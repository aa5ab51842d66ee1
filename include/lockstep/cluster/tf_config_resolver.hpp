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
/// is a number is taken as text, an index that is text as a number; null counts as missing; other keys are
/// left alone.
///
/// `master()` is the option, else the session master, else "" where the cluster has at most one task in all
/// or the current task is an evaluator that it does not list, else the address of the current task. A session
/// master is also that of every task.
/// `num_accelerators` without the option: the current task has this process's GPUs (DeviceManager), of other
/// tasks nothing is known.
class TfConfigResolver : public Resolver {
 public:
  /// Reads the variable once. Not set, or set to nothing: an empty cluster and no task. Options other than
  /// empty ones override it.
  /// @throws InvalidArgument  it is not JSON, or not of this form: says where; an option out of its range.
  explicit TfConfigResolver(ResolverOptions options = {},
                            const EnvironmentVariables& variables = environment_variables());

  ClusterSpec cluster_spec() const override;

 protected:
  /// @throws InvalidArgument  several tasks, none of which is known to be the current one.
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

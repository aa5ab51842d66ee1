#pragma once

#include <lockstep/cluster/resolver.hpp>

#pragma GCC visibility push(default)

namespace lockstep::cluster {

/// A cluster that the caller describes: `SimpleResolver({{"worker", {"w0:2222", "w1:2222"}}},
/// {.task_type = "worker", .task_id = 0})`. `master()` is the option, after "LAYER://" if there is an rpc
/// layer; an empty option stays empty.
class SimpleResolver : public Resolver {
 public:
  /// @throws InvalidArgument  an option is out of its range. Whether the cluster has the task is not checked.
  explicit SimpleResolver(ClusterSpec spec, ResolverOptions options = {});

  ClusterSpec cluster_spec() const override;

 protected:
  std::string default_master() const override;

 private:
  ClusterSpec spec_;
};

}  // namespace lockstep::cluster

#pragma GCC visibility pop

#include <utility>

#include <lockstep/cluster/simple_resolver.hpp>

namespace lockstep::cluster {

SimpleResolver::SimpleResolver(ClusterSpec spec, ResolverOptions options)
    : Resolver(std::move(options)), spec_(std::move(spec)) {}

ClusterSpec SimpleResolver::cluster_spec() const { return spec_; }

std::string SimpleResolver::default_master() const {
  return options().master.empty() ? "" : behind_rpc_layer(options().master);
}

}  // namespace lockstep::cluster

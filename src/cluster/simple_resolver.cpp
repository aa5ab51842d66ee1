#include <utility>

#include <lockstep/cluster/simple_resolver.hpp>

namespace lockstep::cluster {

SimpleResolver::SimpleResolver(ClusterSpec spec, ResolverOptions options)
    : Resolver(std::move(options)), spec_(std::move(spec)) {}

}  // namespace lockstep::cluster

#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/cluster/resolver.hpp>

#pragma GCC visibility push(default)

namespace lockstep::cluster {

/// Several resolvers as one: `UnionResolver(a, b)`. The cluster is the union of theirs; all else is the first
/// one's, as it was when the union was made. Setters change the union alone.
class UnionResolver : public Resolver {
 public:
  /// Each argument a resolver, which is copied, or a std::shared_ptr to one, which is shared.
  /// @throws InvalidArgument  there is none, or one is null.
  template <class... Resolvers>
  explicit UnionResolver(const Resolvers&... resolvers)
      : UnionResolver(std::vector<std::shared_ptr<const Resolver>>{share(resolvers)...}) {}
  explicit UnionResolver(std::vector<std::shared_ptr<const Resolver>> resolvers);

  /// A job that several have: where all their tasks are lists, one list after the other; where any is sparse,
  /// all of them by index.
  /// @throws InvalidArgument  then, an index twice: names job, index and both addresses.
  ClusterSpec cluster_spec() const override;

 protected:
  std::string default_master() const override { return resolvers_.front()->master(); }
  AcceleratorCounts accelerators_of(const std::optional<Task>& task) const override;

 private:
  template <std::derived_from<Resolver> R>
  static std::shared_ptr<const Resolver> share(const R& resolver) {
    return std::make_shared<const R>(resolver);
  }
  template <std::derived_from<Resolver> R>
  static std::shared_ptr<const Resolver> share(const std::shared_ptr<R>& resolver) {
    return resolver;
  }

  std::vector<std::shared_ptr<const Resolver>> resolvers_;  // at least one; shared with the caller
};

}  // namespace lockstep::cluster

#pragma GCC visibility pop

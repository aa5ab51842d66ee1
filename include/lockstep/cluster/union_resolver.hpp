#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/cluster/resolver.hpp>

#pragma GCC visibility push(default)

namespace lockstep::cluster {

/// Several resolvers as one: `UnionResolver(a, b)`. Its cluster is the union of theirs; all other properties
/// are those of the first resolver when the union was made. Setters change only the union.
class UnionResolver : public Resolver {
 public:
  /// Each argument is a resolver, which is copied, or a std::shared_ptr to one, which is shared.
  /// @throws InvalidArgument  there are no resolvers, or one is null.
  template <class... Resolvers>
  explicit UnionResolver(const Resolvers&... resolvers)
      : UnionResolver(std::vector<std::shared_ptr<const Resolver>>{share(resolvers)...}) {}
  explicit UnionResolver(std::vector<std::shared_ptr<const Resolver>> resolvers);

  /// If several clusters have a job and all their tasks are lists, the lists are joined; if any is sparse,
  /// the tasks are joined by index.
  /// @throws InvalidArgument  an index of a sparse job occurs twice: names job, index and both addresses.
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

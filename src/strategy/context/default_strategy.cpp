#include "strategy/context/default_strategy.hpp"

#include "detail/lazy.hpp"
#include "strategy/strategy_config.hpp"

namespace lockstep {
namespace detail {

namespace {

class DefaultStrategy : public Strategy {
 public:
  DefaultStrategy()
      : Strategy({.kind = {.name = "the default strategy", .synchronises = false},
                  .logical_devices = {{Device()}}}) {}
};

}  // namespace

Strategy& default_strategy() {
  static constinit Lazy<Strategy> instance("the default strategy, which was being made");
  return instance.get([] { return new DefaultStrategy(); });
}

ReplicaContext& default_replica_context() {
  static constinit Lazy<ReplicaContext> instance("the default replica context, which was being made");
  return instance.get([] { return new ReplicaContext(default_strategy(), 0, nullptr); });
}

}  // namespace detail
}  // namespace lockstep

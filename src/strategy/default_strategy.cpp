#include "strategy/default_strategy.hpp"

namespace lockstep {
namespace detail {

namespace {

class DefaultStrategy : public Strategy {
 public:
  DefaultStrategy() : Strategy({.name = "the default strategy", .synchronises = false}, {Device()}, {}, {}) {}
};

}  // namespace

Strategy& default_strategy() {
  static Strategy& instance = *new DefaultStrategy();
  return instance;
}

ReplicaContext& default_replica_context() {
  static ReplicaContext& instance = *new ReplicaContext(default_strategy(), 0, nullptr);
  return instance;
}

}  // namespace detail
}  // namespace lockstep

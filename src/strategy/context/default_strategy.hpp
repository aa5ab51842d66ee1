#pragma once

#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/strategy.hpp>

namespace lockstep::detail {

/// The strategy outside every scope: one replica, nothing to keep in step. Never destroyed, as variables
/// refer to it.
Strategy& default_strategy();
/// Its replica context, replica 0 of 1, for all threads.
ReplicaContext& default_replica_context();

}  // namespace lockstep::detail

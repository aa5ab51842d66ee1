#pragma once

#include <memory>
#include <string_view>

#include <lockstep/detail/context_frame.hpp>

namespace lockstep::detail {

/// A pointer that expires when the strategy is destroyed.
std::weak_ptr<const Strategy> life_of(const Strategy& strategy) noexcept;

/// @throws ContextError  the context is another strategy's, where `what` of `own` is not allowed.
void check_is_of(const ContextFrame& frame, const Strategy& own, std::string_view what);

/// @throws ContextError  in a replica function, where `what` is not allowed.
void check_not_in_replica(std::string_view what);

}  // namespace lockstep::detail

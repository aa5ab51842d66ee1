#pragma once

#include "collectives/collective_checks.hpp"
#include "collectives/rendezvous.hpp"

namespace lockstep::detail {

/// Sets `message`, which is empty, to the rank's part of an all_reduce of one small tensor, to be taken along
/// to the meeting; leaves it where it is none, or where a check of its own would find a fault: then the
/// meeting checks, and says so.
///
/// Two such messages of one key pass all checks together but the one on overlapping memory.
void set_short_message(ShortMessage& message, const CollectiveCall& call, const Device& device,
                       const backend::DeviceBackend& device_backend);

}  // namespace lockstep::detail

#pragma once

#include "collectives/collective_checks.hpp"
#include "collectives/mailbox.hpp"

namespace lockstep::detail {

/// That of a rank's all_reduce of one tensor. None (key 0) of any other call, and where a check of the call
/// would find a fault: then the meeting checks, and says so.
///
/// Ranks whose fingerprints agree pass all checks together. @pre the backend shares memory, so that nothing
/// is captured.
Fingerprint fingerprint_of(const CollectiveCall& call, const Device& device,
                           const backend::DeviceBackend& device_backend);

}  // namespace lockstep::detail

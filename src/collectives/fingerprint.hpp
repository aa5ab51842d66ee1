#pragma once

#include "collectives/collective_checks.hpp"
#include "collectives/mailbox.hpp"

namespace lockstep::detail {

/// The fingerprint of a rank's all_reduce of one tensor. Any other call has none (key 0), as has one in which
/// a check by itself would find a fault: then the meeting checks, and says so.
///
/// Ranks whose fingerprints agree pass all checks together. @pre the backend shares memory, so that nothing
/// is captured.
Fingerprint fingerprint_of(const CollectiveCall& call, const Device& device,
                           const backend::DeviceBackend& device_backend);

}  // namespace lockstep::detail

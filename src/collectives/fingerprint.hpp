#pragma once

#include "collectives/collective_checks.hpp"
#include "collectives/mailbox.hpp"

namespace lockstep::detail {

/// The fingerprint of a rank's all_reduce of one tensor. Any other call has none (key 0), nor has one with a
/// fault of its own: then the meeting runs the check, whose error names it.
///
/// Ranks whose fingerprints agree pass all checks together. @pre the backend shares memory, so that nothing
/// is captured.
Fingerprint fingerprint_of(const CollectiveCall& call, const Device& device,
                           const backend::DeviceBackend& device_backend);

}  // namespace lockstep::detail

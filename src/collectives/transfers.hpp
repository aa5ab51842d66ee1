#pragma once

#include <span>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>

#include "collectives/rendezvous.hpp"

namespace lockstep::detail {

/// Sets `transfers` to the parts of a gather, scatter, all_to_all or send_recv, and to none for any other
/// collective. Segments are the batch's tensors.
/// @param arrivals  checked, of all ranks.
void find_transfers(std::span<const Arrival* const> arrivals, std::vector<backend::Transfer>& transfers);

}  // namespace lockstep::detail

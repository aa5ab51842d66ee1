#pragma once

#include <lockstep/stream.hpp>

namespace lockstep::dlpack {

/// Orders later work of `next` after the work of `last`, where memory goes back to its owner. Does nothing
/// where the streams have gone with the process, or with their device.
///
/// If `last` alone is being captured nothing is ordered: the graph runs later, and who launches it keeps the
/// memory. If `next` alone is, the calling thread waits for `last`.
void hand_back(const StreamRef& next, const StreamRef& last) noexcept;

}  // namespace lockstep::dlpack

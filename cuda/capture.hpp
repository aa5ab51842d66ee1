#pragma once

#include <span>
#include <string_view>

#include <lockstep/backend/communicator_backend.hpp>

#include "cuda_device.hpp"

namespace lockstep::cuda {

/// The number of the capture that a stream is in; 0: none.
unsigned long long capture_of(const CudaDevice& device, backend::StreamHandle stream);

/// Streams that are launched together must be captured into one graph, or not at all.
/// @param device  of `call`; `first_device` of `first`.
/// @throws Unsupported  the streams of the two calls are in different captures.
void require_same_capture(std::string_view operation, const backend::RankCall& first,
                          const CudaDevice& first_device, const backend::RankCall& call,
                          const CudaDevice& device);

}  // namespace lockstep::cuda

#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>

#pragma GCC visibility push(default)

/// CUDA's own handles of the library's objects. The one public header that includes CUDA's: link
/// lockstep::cuda_interop, which brings the toolkit's include path.
namespace lockstep::cuda {

/// The CUDA stream behind a stream of a GPU; valid as long as the stream is. From now on the library asks
/// CUDA before each of its calls whether the program captures the stream.
/// @pre stream.device() is a GPU.
[[nodiscard]] inline cudaStream_t native_stream(const StreamRef& stream) {
  stream.device_backend().give_out(stream.handle());
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream.handle()));
}

/// The CUDA event behind an event of a GPU; valid as long as the event is.
/// @pre event.device() is a GPU.
[[nodiscard]] inline cudaEvent_t native_event(const EventRef& event) {
  event.device_backend().give_out(event.handle());
  return reinterpret_cast<cudaEvent_t>(static_cast<std::uintptr_t>(event.handle()));
}

}  // namespace lockstep::cuda

#pragma GCC visibility pop

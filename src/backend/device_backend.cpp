
#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

namespace lockstep::backend {

// If several threads want the stream first, each makes one and one is kept: a fork then never waits for
// another thread.
StreamHandle DeviceBackend::default_stream_handle() {
  StreamHandle stream = default_stream_.load(std::memory_order_acquire);
  if (stream == StreamHandle{}) {
    const StreamHandle made = create_stream();
    if (default_stream_.compare_exchange_strong(stream, made, std::memory_order_acq_rel))
      stream = made;
    else
      destroy_stream(made);
  }
  return stream;
}

void DeviceBackend::finish(StreamHandle stream) noexcept {
  try {
    synchronize(stream);
  } catch (const Error&) {  // then nothing runs
  }
}

}  // namespace lockstep::backend

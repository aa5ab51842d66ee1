
#include <lockstep/backend/device_backend.hpp>

namespace lockstep::backend {

// Threads that want it first at once make one each, and keep one: no fork has to wait for another thread's.
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

}  // namespace lockstep::backend

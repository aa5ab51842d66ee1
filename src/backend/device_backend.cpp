#include <lockstep/backend/device_backend.hpp>

namespace lockstep::backend {

StreamRef DeviceBackend::default_stream() {
  std::call_once(default_stream_once_, [this] { default_stream_ = create_stream(); });
  return {*this, default_stream_};
}

}  // namespace lockstep::backend

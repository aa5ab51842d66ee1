#include <cstddef>
#include <vector>

#include <lockstep/backend/device_backend.hpp>

#include "measure.hpp"

namespace lockstep::hardware {

// Between host and device, page-locked and not.
void copies(Section& section) {
  const Stream stream(kGpu);
  const StreamScope scope(stream);
  const auto size = static_cast<std::size_t>(section.bytes());
  const double bytes = static_cast<double>(size);
  const PinnedBuffer pinned(size, kGpu);
  std::vector<std::byte> pageable(size);
  const Tensor tensor = Tensor::empty({section.bytes()}, DType::u8, kGpu);
  const auto upload = [&](const std::byte* from) {
    stream.device_backend().copy_from_host(tensor.view().data, from, size, stream.handle());
  };
  section.device_time(
      "to the device, page-locked", stream, bytes, [&](int) { upload(pinned.bytes().data()); }, 3);
  section.device_time(
      "to the device, pageable", stream, bytes, [&](int) { upload(pageable.data()); }, 1);
  const auto download = [&](int) {
    stream.device_backend().copy_to_host(pinned.bytes().data(), tensor.view().data, size, stream.handle());
  };
  section.device_time("to the host, page-locked", stream, bytes, download, 3);
}

}  // namespace lockstep::hardware

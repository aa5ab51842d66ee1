#include <vector>

#include "measure.hpp"

namespace lockstep::hardware {

// How long the host is kept by what steps consist of.
void host_costs(Section& section) {
  const Stream stream(kGpu), other(kGpu);
  const StreamScope scope(stream);
  const auto wait = [&] { stream.synchronize(); };
  section.host_time(
      "Tensor::empty and back", [] { static_cast<void>(Tensor::empty({1024}, DType::f32, kGpu)); }, wait);
  Tensor tensor = Tensor::zeros({1024}, DType::f32, kGpu), copy = tensor.clone();
  section.host_time(
      "fill_: a kernel", [&] { tensor.fill_(1); }, wait);
  section.host_time(
      "t + t: a kernel and an allocation", [&] { static_cast<void>(tensor + tensor); }, wait);
  section.host_time(
      "copy_", [&] { copy.copy_(tensor); }, wait);
  section.host_time(
      "a stream waits for another", [&] { other.wait(stream); }, wait);

  DeviceManager& manager = DeviceManager::instance();
  const std::vector<Device> devices = manager.devices(DeviceKind::gpu);
  Communicator communicator = Communicator::create(devices);
  std::vector<Stream> owned;
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  for (const Device& device : devices) {
    owned.emplace_back(device);
    tensors.push_back(Tensor::zeros({2}, DType::f32, device));
    views.push_back(tensors.back().view());
    current_stream(device).synchronize();
  }
  const std::vector<StreamRef> streams(owned.begin(), owned.end());
  const auto wait_for_all = [&] {
    for (const StreamRef& each : streams) each.synchronize();
  };
  section.host_time(
      "all_reduce of 8 bytes by one thread",
      [&] { communicator.all_reduce(ReduceOp::sum, views, views, streams); }, wait_for_all, 50);
}

}  // namespace lockstep::hardware

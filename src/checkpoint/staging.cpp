#include "checkpoint/staging.hpp"

#include <algorithm>

#include "detail/cpu_0.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kAlignment = 256;  // that of Buffer

std::size_t aligned(std::int64_t num_bytes) {
  return (static_cast<std::size_t>(num_bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void Staging::clear() noexcept {
  for (Area& area : areas_) area.planned = area.used = 0;
}

Staging::Area& Staging::area_of(const Device& device) {
  const auto found = std::ranges::find(areas_, device, &Area::device);
  return found == areas_.end() ? areas_.emplace_back(Area{.device = device}) : *found;
}

void Staging::plan(const Device& device, std::int64_t num_bytes) {
  if (device.kind() == DeviceKind::gpu) area_of(device).planned += aligned(num_bytes);
}

Tensor Staging::make(const Device& device, const Shape& shape, DType dtype) {
  if (device.kind() != DeviceKind::gpu || shape.size() == 0) return Tensor::empty(shape, dtype, cpu_0());
  Area& area = area_of(device);
  if (area.memory.bytes().size() < area.planned) {
    area.memory = PinnedBuffer();  // first, so that both are not there at once
    area.memory = PinnedBuffer(area.planned, device);
  }
  const std::span<std::byte> bytes = area.memory.bytes().subspan(area.used);
  Tensor tensor = Tensor::view(bytes.data(), shape, dtype, cpu_0());
  area.used += aligned(tensor.nbytes());
  return tensor;
}

Tensor Staging::on_host(const Tensor& tensor) {
  if (tensor.device().kind() != DeviceKind::gpu) return tensor.to(cpu_0()).contiguous();
  Tensor copy = make(tensor.device(), tensor.shape(), tensor.dtype());
  copy.copy_(tensor);
  return copy;
}

std::map<std::string, Tensor> on_host(std::map<std::string, Tensor> tensors, Staging& staging) {
  for (const auto& [key, tensor] : tensors) staging.plan(tensor.device(), tensor.nbytes());
  for (auto& [key, tensor] : tensors) tensor = staging.on_host(tensor);
  return tensors;
}

}  // namespace lockstep::detail

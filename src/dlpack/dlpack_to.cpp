#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/dlpack.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "dlpack/abi.hpp"
#include "dlpack/element_types.hpp"
#include "dlpack/hand_back.hpp"
#include "tensor_checks.hpp"

namespace lockstep::dlpack {
namespace {

/// What a managed tensor points to. One allocation, which the deleter frees.
template <class Struct>
struct Lent {
  Lent(const Tensor& lent, const StreamRef& stream) : tensor(lent), consumer(stream) {}

  Struct managed{};
  Tensor tensor;
  StreamRef consumer;
  std::array<std::int64_t, Shape::kMaxRank> shape{}, strides{};
};

template <class Struct>
void end_lending(Struct* managed) noexcept {
  const std::unique_ptr<Lent<Struct>> lent(static_cast<Lent<Struct>*>(managed->manager_ctx));
  if (const std::optional<StreamRef> owner = lent->tensor.stream()) hand_back(*owner, lent->consumer);
}

DLDevice place_of(const TensorView& view, const StreamRef& producer, const StreamRef& consumer) {
  if (view.device.kind() == DeviceKind::gpu) return {kDLCUDA, producer.device_backend().ordinal()};
  const bool is_pinned = view.size() > 0 && consumer.device_backend().is_pinned(view.data);
  return {is_pinned ? kDLCUDAHost : kDLCPU, 0};
}

template <class Struct>
std::unique_ptr<Struct, Deleter> lend(const Tensor& tensor, const StreamRef& consumer) {
  const TensorView& view = tensor.view();
  const StreamRef producer = current_stream(view.device);
  auto lent = std::make_unique<Lent<Struct>>(tensor, consumer);
  std::copy(view.shape.begin(), view.shape.end(), lent->shape.begin());
  lent->strides = view.strides;
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = end_lending<Struct>;
  lent->managed.dl_tensor = {.data = view.size() > 0 ? view.data : nullptr,
                             .device = place_of(view, producer, consumer),
                             .ndim = view.shape.rank(),
                             .dtype = to_element_type(view.dtype),
                             .shape = lent->shape.data(),
                             .strides = lent->strides.data(),
                             .byte_offset = 0};
  if constexpr (std::is_same_v<Struct, DLManagedTensorVersioned>) {
    lent->managed.version = kVersion;
    lent->managed.flags = detail::is_writable(tensor) ? 0 : kReadOnlyFlag;
  }
  consumer.wait(producer);
  return std::unique_ptr<Struct, Deleter>(&lent.release()->managed);
}

}  // namespace

void Deleter::operator()(DLManagedTensorVersioned* managed) const noexcept {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

void Deleter::operator()(DLManagedTensor* managed) const noexcept {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

Managed to(const Tensor& tensor, StreamRef consumer) {
  return lend<DLManagedTensorVersioned>(tensor, consumer);
}

UnversionedManaged to_unversioned(const Tensor& tensor, StreamRef consumer) {
  LOCKSTEP_EXPECTS(
      detail::is_writable(tensor), InvalidArgument, "dlpack::to_unversioned: ", describe(tensor),
      " must not be written, and the struct before DLPack 1.0 cannot say so. Pass its clone(), or "
      "use dlpack::to.");
  return lend<DLManagedTensor>(tensor, consumer);
}

}  // namespace lockstep::dlpack

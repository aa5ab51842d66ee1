#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/dlpack.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "dlpack/abi.hpp"
#include "dlpack/element_types.hpp"
#include "dlpack/hand_back.hpp"

namespace lockstep::dlpack {
namespace {

/// The memory of a tensor that was taken: when its last handle goes, it goes back.
template <class Struct>
struct Taken {
  Taken(std::unique_ptr<Struct, Deleter> owner, const StreamRef& user, const StreamRef& stream)
      : memory(0, user), lender(stream), managed(std::move(owner)) {}
  ~Taken() { hand_back(lender, memory.stream()); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  Buffer memory;  // has no bytes; its stream is the one that would free them
  const StreamRef lender;
  const std::unique_ptr<Struct, Deleter> managed;
};

Shape shape_of(const DLTensor& tensor) {
  LOCKSTEP_EXPECTS(0 <= tensor.ndim && tensor.ndim <= Shape::kMaxRank, InvalidArgument, "dlpack::from: rank ",
                   tensor.ndim, " is outside [0, ", Shape::kMaxRank, "]. Join axes.");
  LOCKSTEP_EXPECTS(tensor.ndim == 0 || tensor.shape != nullptr, InvalidArgument, "dlpack::from: rank ",
                   tensor.ndim, ", and no shape. Pass an extent for each axis.");
  return Shape(std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
}

Device device_of(const DLDevice& place, const StreamRef& stream) {
  Device device = stream.device();
  const bool is_gpu = device.kind() == DeviceKind::gpu;
  if (place.device_type == kDLCPU || place.device_type == kDLCUDAHost) return is_gpu ? Device() : device;
  LOCKSTEP_EXPECTS(place.device_type == kDLCUDA, Unsupported,
                   "dlpack::from: the memory is on a device of type ", static_cast<int>(place.device_type),
                   " (DLDeviceType), and lockstep uses CPUs (1, 3) and CUDA's "
                   "GPUs (2). Copy it to one of these in the library that it comes from.");
  LOCKSTEP_EXPECTS(is_gpu, InvalidArgument, "dlpack::from: the memory is on CUDA's GPU ", place.device_id,
                   ", the stream is of ", device, ". Pass a stream of that GPU.");
  const int ordinal = stream.device_backend().ordinal();
  LOCKSTEP_EXPECTS(place.device_id == ordinal, InvalidArgument, "dlpack::from: the memory is on CUDA's GPU ",
                   place.device_id, ", the stream is of ", device, ", which is CUDA's GPU ", ordinal,
                   ". Pass a stream of the memory's GPU.");
  return device;
}

/// Sets the strides of a view that has elements, and checks that all of them lie in the address space.
void set_strides(TensorView& view, const DLTensor& tensor) {
  std::int64_t last = 0;
  bool fits = true;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.shape.rank()); ++axis) {
    const std::int64_t extent = tensor.shape[axis];
    if (extent == 1) continue;  // the axis is never stepped along
    if (tensor.strides != nullptr) view.strides[axis] = tensor.strides[axis];
    const std::int64_t stride = view.strides[axis];
    LOCKSTEP_EXPECTS(
        stride >= 0, Unsupported, "dlpack::from: stride ", stride, " of axis ", axis, " of ", view.shape, " ",
        view.dtype, " is negative, and a Tensor's are 0 or more. Copy it in the library that it comes from.");
    std::int64_t step = 0;
    fits = fits && !__builtin_mul_overflow(extent - 1, stride, &step) &&
           !__builtin_add_overflow(last, step, &last);
  }
  std::uintptr_t length = 0, end = 0;
  fits = fits &&
         !__builtin_mul_overflow(static_cast<std::uintptr_t>(last) + 1, size_of(view.dtype), &length) &&
         !__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(view.data), length, &end);
  LOCKSTEP_EXPECTS(fits, InvalidArgument, "dlpack::from: the strides of ", view.shape, " ", view.dtype,
                   " lead out of the address space. Pass those of the memory.");
}

/// The address of the first of some elements.
void* first_element(const DLTensor& tensor, const Shape& shape, DType dtype) {
  LOCKSTEP_EXPECTS(tensor.data != nullptr, InvalidArgument, "dlpack::from: no data for ", shape, " ", dtype,
                   ", which has ", shape.size(), " elements. Pass the address of the first.");
  const auto data = reinterpret_cast<std::uintptr_t>(tensor.data);
  std::uintptr_t first = 0;
  LOCKSTEP_EXPECTS(!__builtin_add_overflow(data, tensor.byte_offset, &first), InvalidArgument,
                   "dlpack::from: the byte offset ", tensor.byte_offset, " of ", shape, " ", dtype,
                   " leads out of the address space. Pass that of the first element.");
  LOCKSTEP_EXPECTS(first % size_of(dtype) == 0, InvalidArgument, "dlpack::from: the first element of ", shape,
                   " ", dtype, ", ", tensor.byte_offset, " bytes after address ", data,
                   ", is at no multiple of ", size_of(dtype),
                   " bytes. Copy it in the library that it comes from.");
  return reinterpret_cast<void*>(first);
}

TensorView view_of(const DLTensor& tensor, const StreamRef& stream) {
  const DType dtype = to_dtype(tensor.dtype);
  const Shape shape = shape_of(tensor);
  TensorView view(static_cast<void*>(nullptr), shape, dtype, device_of(tensor.device, stream));
  if (shape.empty()) return view;
  view.data = first_element(tensor, shape, dtype);
  set_strides(view, tensor);
  return view;
}

template <class Struct>
Tensor take(std::unique_ptr<Struct, Deleter> managed, TensorView view, const StreamRef& stream) {
  const StreamRef user = current_stream(view.device);
  const auto taken = std::make_shared<Taken<Struct>>(std::move(managed), user, stream);
  user.wait(stream);
  return Tensor::adopt(std::shared_ptr<Buffer>(taken, &taken->memory), std::move(view));
}

template <class Struct>
void require_tensor(const std::unique_ptr<Struct, Deleter>& managed) {
  LOCKSTEP_EXPECTS(managed != nullptr, InvalidArgument,
                   "dlpack::from: no managed tensor, but null. Pass one that has not been taken yet.");
}

}  // namespace

Tensor from(Managed managed, StreamRef stream) {
  require_tensor(managed);
  const DLPackVersion version = managed->version;
  LOCKSTEP_EXPECTS(version.major == kVersion.major, Unsupported,
                   "dlpack::from: the tensor has DLPack's version ", version.major, ".", version.minor,
                   ", and lockstep reads ", kVersion.major,
                   ".x. Ask its library for that version (max_version).");
  TensorView view = view_of(managed->dl_tensor, stream);
  view.read_only = (managed->flags & kReadOnlyFlag) != 0;
  return take(std::move(managed), std::move(view), stream);
}

Tensor from(UnversionedManaged managed, StreamRef stream) {
  require_tensor(managed);
  TensorView view = view_of(managed->dl_tensor, stream);
  return take(std::move(managed), std::move(view), stream);
}

}  // namespace lockstep::dlpack

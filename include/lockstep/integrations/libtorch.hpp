#pragma once

#include <string>

#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)  // only a torch with CUDA installs it
#include <c10/cuda/CUDAStream.h>
#endif

#include <lockstep/device_manager.hpp>
#include <lockstep/dlpack.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// Tensors that lockstep and LibTorch, 1.13 or later, share without a copy. Header only: the program links
/// torch, the library does not know it. Any thread may call.
///
/// Both sides see each other's writes, which torch's version counters do not count. The rules of dlpack.hpp
/// hold: each call orders the consumer's work after the producer's work so far, the last handle on either
/// side ends the sharing, and the streams must live until then.
namespace lockstep::libtorch {

/// The stream on which torch enqueues what this thread calls on `device`: torch's current CUDA stream, or
/// for a CPU, whose work torch does on the calling thread, lockstep's.
/// @throws Unsupported  a GPU, and torch was built without CUDA. @throws NotFound  there is no such device.
[[nodiscard]] inline StreamRef current_stream(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return lockstep::current_stream(device);
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
  const auto index = static_cast<c10::DeviceIndex>(device.index());
  return Stream::borrow(c10::cuda::getCurrentCUDAStream(index).stream(), device);
#else
  throw Unsupported(
      "libtorch::current_stream: this LibTorch was built without CUDA, so it has no stream on " +
      device.to_string() + ". Pass the stream, or use a LibTorch with CUDA.");
#endif
}

/// Takes torch's tensor, which the last handle gives back; strides stay, and gradients are not recorded. The
/// result is on the stream's device: torch has one CPU for all host replicas.
/// @param stream  a stream that is ordered after torch's work on the tensor.
/// @throws InvalidArgument  the tensor is undefined. @throws Unsupported  it is sparse, conjugated or negated
/// lazily, quantised, or on a device that DLPack does not name.
/// @throws as dlpack::from.
[[nodiscard]] inline Tensor from(const at::Tensor& tensor, StreamRef stream) {
  if (!tensor.defined())
    throw InvalidArgument("libtorch::from: the tensor is undefined. Pass one with memory.");
  const auto refuse = [&](const std::string& why) {
    throw Unsupported("libtorch::from: " + tensor.toString() + " " + why);
  };
  if (tensor.layout() != at::kStrided)
    refuse("is sparse, which a lockstep::Tensor cannot be. Use to_dense().");
  if (tensor.is_conj() || tensor.is_neg())
    refuse("is conjugated or negated when it is read. Use resolve_conj() and resolve_neg().");
  DLManagedTensor* lent = nullptr;
  try {
    const at::NoGradGuard no_grad;  // toDLPack makes a view
    lent = at::toDLPack(tensor);
  } catch (const c10::Error& error) {
    refuse(std::string("cannot be lent by DLPack: ") + error.what_without_backtrace());
  }
  return dlpack::from(dlpack::UnversionedManaged(lent), stream);
}
/// The same, after torch's work on its current stream. A tensor of a CPU comes to this thread's current
/// device (DeviceScope), in a replica function the replica's, or to CPU:0 if that is a GPU.
[[nodiscard]] inline Tensor from(const at::Tensor& tensor) {
  Device device = current_device();
  if (tensor.defined() && tensor.is_cuda())
    device = Device(DeviceKind::gpu, tensor.get_device());
  else if (device.kind() != DeviceKind::cpu)
    device = Device();
  return from(tensor, libtorch::current_stream(device));
}

/// Lends `tensor` to torch, whose last handle gives it back. It needs no gradient until told to.
/// @param consumer  the stream on which torch will use it.
/// @throws InvalidArgument  the tensor is read-only, which torch cannot say: clone() it. @throws Unsupported
/// torch has no such dtype. @throws as dlpack::to.
[[nodiscard]] inline at::Tensor to(const Tensor& tensor, StreamRef consumer) {
  dlpack::UnversionedManaged managed = dlpack::to_unversioned(tensor, consumer);
  try {
    at::Tensor result = at::fromDLPack(managed.get());
    static_cast<void>(managed.release());
    return result;
  } catch (const c10::Error& error) {
    throw Unsupported("libtorch::to: " + describe(tensor) +
                      " cannot be taken by torch: " + error.what_without_backtrace());
  }
}
/// The same for torch's current stream. @throws as current_stream, and above.
[[nodiscard]] inline at::Tensor to(const Tensor& tensor) {
  return to(tensor, libtorch::current_stream(tensor.device()));
}

}  // namespace lockstep::libtorch

#pragma GCC visibility pop

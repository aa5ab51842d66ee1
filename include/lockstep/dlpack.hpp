#pragma once

#include <memory>

#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

// DLPack's structs. A program that looks into them includes a dlpack.h of its own, 1.0 or later.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/// Tensors that lockstep and other libraries share without a copy, by DLPack 1.1, which PyTorch, NumPy, JAX,
/// CuPy and TVM have too. Any thread may call.
///
/// Both sides see each other's writes afterwards. Each call orders the consumer's work after the producer's
/// work so far, and the end of the sharing orders what the producer does next after the consumer's work so
/// far; between the two, who shares a tensor orders its use by events. The streams that are passed must live
/// until the sharing has ended. A CUDA graph runs after it was captured: keep the shared tensor for as long
/// as a graph that uses it can run.
namespace lockstep::dlpack {

/// Calls the managed tensor's deleter, if it has one.
struct Deleter {
  void operator()(DLManagedTensorVersioned* managed) const noexcept;
  void operator()(DLManagedTensor* managed) const noexcept;
};

/// A managed tensor, with which its owner ends the sharing. `release()` it to hand it to a library that calls
/// the deleter itself; make one of a pointer that was received.
using Managed = std::unique_ptr<DLManagedTensorVersioned, Deleter>;
/// The same of the struct before DLPack 1.0, for libraries that know no other.
using UnversionedManaged = std::unique_ptr<DLManagedTensor, Deleter>;

/// Lends `tensor` to a consumer, whose stream waits for the tensor's current_stream.
///
/// The managed tensor keeps the memory alive, except memory that was borrowed with Tensor::view, which its
/// owner must keep until the deleter has been called. It has strides in elements, no offset, and the flag
/// "read-only" if the tensor is, or if its elements share addresses. A GPU is named by CUDA's number, which
/// virtual devices of a GPU share. Host memory is the CPU's; if the consumer's stream is a GPU's and the
/// memory is page-locked, it is CUDA's host memory.
///
/// The deleter may be called on any thread, also while the process ends. It then counts as a reader of
/// `tensor`. It waits on the host only if the stream is a GPU's and the memory the host's, or if the stream
/// that frees the memory is being captured.
///
/// @param consumer  the stream on which the consumer will use the memory; of the tensor's device, or of any
/// other.
/// @throws ContextError  the tensor is empty, or the consumer's stream is being captured and cannot wait:
/// see StreamRef::wait.
[[nodiscard]] Managed to(const Tensor& tensor, StreamRef consumer);
/// The same, writable. @throws InvalidArgument  the tensor must not be written, which the struct before
/// DLPack 1.0 cannot say.
[[nodiscard]] UnversionedManaged to_unversioned(const Tensor& tensor, StreamRef consumer);

/// Takes a tensor that another library lends. The current_stream of its device waits for `stream`. The last
/// handle makes `stream` wait for the tensor's work and calls the deleter, on its own thread. If this call
/// throws, the deleter has been called, too.
///
/// The tensor is on the stream's device. Host memory that comes with a GPU's stream, on which the producer
/// fills it, is on CPU:0, and this call waits on the host; page-locked memory must be held until copies that
/// read it are done, as that of a Tensor::view. The tensor may have strides. It is read-only if the managed
/// tensor's flags say so. Tensor::is_borrowed is true.
///
/// @param stream  a stream that is ordered after the producer's work: the one that was passed to the producer
/// as the consumer's, or the producer's own.
/// @throws Unsupported  a version other than 1; elements that no DType has (complex, vectors of several
/// lanes, fewer than 8 bits); a device that is neither a CPU nor a CUDA GPU; a negative stride.
/// @throws InvalidArgument  no tensor, or a malformed one: a rank outside [0, Shape::kMaxRank], a negative
/// extent, no shape, no data, elements beyond the address space, or an address that is no multiple of an
/// element's size. Or the memory is on another GPU than the stream.
/// @throws ContextError  see StreamRef::wait.
[[nodiscard]] Tensor from(Managed managed, StreamRef stream);
[[nodiscard]] Tensor from(UnversionedManaged managed, StreamRef stream);

}  // namespace lockstep::dlpack

#pragma GCC visibility pop

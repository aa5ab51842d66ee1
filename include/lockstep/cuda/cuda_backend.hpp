#pragma once

#include <memory>

#include <lockstep/backend/backend.hpp>

#pragma GCC visibility push(default)

namespace lockstep::cuda {

/// The GPUs of this process that CUDA_VISIBLE_DEVICES leaves, in the CUDA runtime's order: GPU:k is the k-th,
/// or, after set_virtual_devices, the k-th replica's place on them. That order is the machine's own
/// (nvidia-smi's) only with CUDA_DEVICE_ORDER=PCI_BUS_ID in the environment: unset, the fastest GPU comes
/// first. No device, and no error, where there is no driver or no GPU; a line in the log where the driver is
/// too old or not ready.
///
/// The default devices leave out a GPU that the library has no code for, which `open` refuses (Unsupported),
/// and one whose compute mode is prohibited, or exclusive and taken. GPUs without memory pools, as some
/// shares of virtualised ones are, get their memory from cudaMalloc, and their streams cannot be captured.
///
/// A fork of a process that has used GPUs can use none: calls throw ContextError, and nothing is released
/// there.
///
/// A GPU that nobody opens gets no context and no allocation. Streams of the backend are CUDA streams that do
/// not synchronise with the legacy default stream. Memory comes from one stream-ordered pool for each GPU
/// (cudaMallocAsync), which keeps freed memory until trim_memory. Collectives of distinct GPUs run on NCCL.
/// Those of virtual devices of one GPU run by own kernels, which read all sources and write all destinations
/// once, in rank order. A group that mixes both is refused.
///
/// Streams may be captured into CUDA graphs. A launch uses the addresses that its capture saw:
/// - Memory that is allocated on the captured streams, or dropped there in the capture, is not freed before
///   the graph and its executables are gone. If the capture has failed, it is freed when the capture ends.
/// - Host values that are copied to a device in the capture are kept with the graph.
/// - Variables stay in their memory (see Variable).
/// - The caller keeps inputs and all tensors of other streams, whose work must be done before the capture.
///
/// A call that would wait for a captured stream, or for an event that was recorded there, such as reading
/// values, throws ContextError; a step of an optimizer throws Unsupported; the capture goes on. Meanwhile the
/// same thread may wait for other streams and allocate on them. trim_memory of the GPU throws ContextError.
///
/// Collectives are captured on all ranks or on none, else every rank throws Unsupported, and the communicator
/// stays usable. On NCCL each GPU's part may become a graph of its own, to be launched from a thread of its
/// own. The parts of virtual devices become one graph, else rank 0 throws Unsupported, and where ranks have
/// several threads the communicator is aborted. Communicators should outlive the graphs that have their
/// collectives. One that goes first waits for a second, as CUDA drops what graphs keep some time after them,
/// and then is left as it is, with a message. When its graphs are gone, the next communicator that is made or
/// destroyed, or trim_memory of any GPU, ends it.
///
/// Before its first NCCL communicator the library sets NCCL_LAUNCH_ORDER_IMPLICIT=1 in the process's
/// environment if the variable is not there: collectives of several communicators then run on each GPU in the
/// order in which they were enqueued. NCCL reads it once. A program whose own NCCL calls come first, or whose
/// other threads read or change the environment at that time, sets it itself when it starts.
[[nodiscard]] std::unique_ptr<backend::Backend> make_backend();

}  // namespace lockstep::cuda

#pragma GCC visibility pop

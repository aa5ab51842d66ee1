// Allocation of device, pinned and managed memory.
#include <algorithm>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

using Kind = Allocation::Kind;
using State = Allocation::State;

cudaError_t free_device(Lock& lock, const char* name, void* pointer) {
  Machine& m = machine();
  Allocation* allocation = m.memory.find(to_address(pointer));
  if (!allocation || allocation->start != to_address(pointer) ||
      !(allocation->kind == Kind::device || allocation->kind == Kind::managed)) {
    report(format("%s(%p): not a pointer from cudaMalloc", name, pointer));
    return cudaErrorInvalidValue;
  }
  if (allocation->is_freed()) {
    report(format("%s(%p): DOUBLE FREE of allocation #%llu, freed by %s", name, pointer,
                  static_cast<unsigned long long>(allocation->id),
                  allocation->free_queued && allocation->state != State::freed
                      ? "cudaFreeAsync"
                      : allocation->freed_by.c_str()));
    return cudaErrorInvalidValue;
  }
  if (cudaError_t error = wait_device(lock, allocation->device, name); error != cudaSuccess) return error;
  allocation->out = false;
  if (m.devices[allocation->device]->sticky != cudaSuccess) {
    const cudaError_t error = m.devices[allocation->device]->sticky;
    m.memory.release(*allocation, name);
    return error;
  }
  if (allocation->state == State::freed) return cudaErrorInvalidValue;
  if (allocation->pool)
    allocation->pool->used -= std::min<std::uint64_t>(allocation->pool->used, allocation->charged);
  m.memory.release(*allocation, name);
  return cudaSuccess;
}

cudaError_t allocate(Lock& lock, Call& call, void** pointer, std::size_t bytes) {
  Machine& m = machine();
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = thread_state().device;
  if (cudaError_t error = wait_to_map(lock, device, call.name); error != cudaSuccess) return error;
  Allocation* allocation = m.memory.allocate_device(device, bytes, Kind::device, State::live, call.name);
  if (!allocation) {
    // Frees that are queued may still give memory back.
    bool pending = false;
    for (StreamObject* stream : m.devices[device]->streams)
      for (const OpPtr& op : stream->lane.queue) pending |= std::holds_alternative<FreeWork>(op->work);
    if (pending) {
      while (step(lock) == Step::ran) {
      }
      allocation = m.memory.allocate_device(device, bytes, Kind::device, State::live, call.name);
    }
  }
  if (!allocation) return cudaErrorMemoryAllocation;
  *pointer = reinterpret_cast<void*>(allocation->start);
  call.info = format("%zu bytes -> %p", bytes, *pointer);
  return cudaSuccess;
}

cudaError_t host_allocate(Lock& lock, Call& call, void** pointer, std::size_t bytes, unsigned flags) {
  Machine& m = machine();
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (flags & ~(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
    return cudaErrorInvalidValue;
  if (bytes == 0) return cudaSuccess;
  if (cudaError_t error = wait_to_map(lock, -1, call.name); error != cudaSuccess) return error;
  Allocation* allocation = m.memory.allocate_host(bytes, Kind::pinned, thread_state().device, call.name);
  if (!allocation) return cudaErrorMemoryAllocation;
  allocation->flags = flags;
  *pointer = allocation->host;
  call.info = format("%zu bytes -> %p", bytes, *pointer);
  return cudaSuccess;
}

}  // namespace

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return api("cudaMalloc", unsafe,
             [&](Lock& lock, Call& call) { return allocate(lock, call, pointer, bytes); });
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return api("cudaMallocPitch", unsafe, [&](Lock& lock, Call& call) {
    if (!pitch) return cudaErrorInvalidValue;
    *pitch = (width + 511) / 512 * 512;
    return allocate(lock, call, pointer, *pitch * height);
  });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  return api("cudaMalloc3D", unsafe, [&](Lock& lock, Call& call) {
    if (!pointer) return cudaErrorInvalidValue;
    pointer->pitch = (extent.width + 511) / 512 * 512;
    pointer->xsize = extent.width;
    pointer->ysize = extent.height;
    return allocate(lock, call, &pointer->ptr, pointer->pitch * extent.height * extent.depth);
  });
}

cudaError_t cudaFree(void* pointer) {
  return api("cudaFree", unsafe, [&](Lock& lock, Call& call) {
    call.info = format("%p", pointer);
    return pointer ? free_device(lock, call.name, pointer) : cudaSuccess;
  });
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return api("cudaMallocManaged", unsafe, [&](Lock& lock, Call& call) {
    if (!pointer || bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
      return cudaErrorInvalidValue;
    if (cudaError_t error = wait_to_map(lock, -1, call.name); error != cudaSuccess) return error;
    Allocation* allocation =
        machine().memory.allocate_host(bytes, Kind::managed, thread_state().device, call.name);
    if (!allocation) return cudaErrorMemoryAllocation;
    *pointer = allocation->host;
    call.info = format("%zu bytes -> %p", bytes, *pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return api("cudaMallocHost", unsafe,
             [&](Lock& lock, Call& call) { return host_allocate(lock, call, pointer, bytes, 0); });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return api("cudaHostAlloc", unsafe,
             [&](Lock& lock, Call& call) { return host_allocate(lock, call, pointer, bytes, flags); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return api("cudaFreeHost", unsafe, [&](Lock& lock, Call& call) {
    call.info = format("%p", pointer);
    if (!pointer) return cudaSuccess;
    Allocation* allocation = machine().memory.find(to_address(pointer));
    if (!allocation || allocation->kind != Kind::pinned || allocation->start != to_address(pointer)) {
      report(format("cudaFreeHost(%p): not a pointer from cudaMallocHost or cudaHostAlloc", pointer));
      return cudaErrorInvalidValue;
    }
    if (allocation->state == State::freed) {
      report(format("cudaFreeHost(%p): DOUBLE FREE of allocation #%llu", pointer,
                    static_cast<unsigned long long>(allocation->id)));
      return cudaErrorInvalidValue;
    }
    if (cudaError_t error = wait_to_map(lock, -1, call.name); error != cudaSuccess) return error;
    machine().memory.release(*allocation, "cudaFreeHost");
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return api("cudaHostRegister", unsafe, [&](Lock& lock, Call& call) {
    call.info = format("%p %zu bytes", pointer, bytes);
    if (!pointer || bytes == 0 ||
        (flags & ~(cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory |
                   cudaHostRegisterReadOnly)))
      return cudaErrorInvalidValue;
    if (machine().memory.overlapping(to_address(pointer), to_address(pointer) + bytes))
      return cudaErrorHostMemoryAlreadyRegistered;
    if (cudaError_t error = wait_to_map(lock, -1, call.name); error != cudaSuccess) return error;
    machine().memory.register_host(pointer, bytes, thread_state().device)->flags = flags;
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return api("cudaHostUnregister", unsafe, [&](Lock& lock, Call& call) {
    call.info = format("%p", pointer);
    Allocation* allocation = machine().memory.find(to_address(pointer));
    if (!allocation || allocation->kind != Kind::registered || allocation->start != to_address(pointer))
      return cudaErrorHostMemoryNotRegistered;
    if (cudaError_t error = wait_to_map(lock, -1, call.name); error != cudaSuccess) return error;
    machine().memory.release(*allocation, "cudaHostUnregister");
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return api("cudaHostGetDevicePointer", plain, [&](Lock&, Call&) {
    if (!device || flags) return cudaErrorInvalidValue;
    Allocation* allocation = machine().memory.find(to_address(host));
    if (!allocation || allocation->on_device() || allocation->state != State::live)
      return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return api("cudaHostGetFlags", plain, [&](Lock&, Call&) {
    Allocation* allocation = machine().memory.find(to_address(host));
    if (!flags || !allocation || allocation->on_device()) return cudaErrorInvalidValue;
    *flags = allocation->flags | cudaHostAllocMapped;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api("cudaMemGetInfo", plain, [&](Lock&, Call&) {
    Machine& m = machine();
    const int device = thread_state().device;
    std::size_t taken = m.memory.used[device];
    for (const void* handle : m.pools) {
      const auto* pool = static_cast<const Pool*>(handle);
      if (pool->device == device) taken += pool->cached;
    }
    if (total) *total = m.memory.limit();
    if (free) *free = m.memory.limit() - std::min(taken, m.memory.limit());
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api("cudaPointerGetAttributes", plain, [&](Lock&, Call& call) {
    call.quiet = true;
    if (!attributes) return cudaErrorInvalidValue;
    std::memset(attributes, 0, sizeof *attributes);
    Allocation* allocation = machine().memory.find(to_address(pointer));
    if (!allocation || allocation->state == State::freed) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer =
          machine().memory.in_device_range(to_address(pointer)) ? nullptr : const_cast<void*>(pointer);
      return cudaSuccess;
    }
    attributes->device = allocation->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    if (allocation->on_device()) {
      attributes->type = cudaMemoryTypeDevice;
    } else {
      attributes->type = allocation->kind == Kind::managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
      attributes->hostPointer = const_cast<void*>(pointer);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation, unsigned,
                                 cudaStream_t handle) {
  return api("cudaMemPrefetchAsync", plain, [&](Lock& lock, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    Allocation* allocation = machine().memory.find(to_address(pointer));
    if (!allocation || allocation->kind != Kind::managed || allocation->state != State::live ||
        to_address(pointer) + bytes > allocation->start + allocation->bytes)
      return cudaErrorInvalidValue;
    return submit(lock, *stream, EmptyWork{"prefetch"});
  });
}

cudaError_t cudaMemAdvise(const void* pointer, size_t, cudaMemoryAdvise, cudaMemLocation) {
  return api("cudaMemAdvise", plain, [&](Lock&, Call&) {
    Allocation* allocation = machine().memory.find(to_address(pointer));
    return allocation && allocation->kind == Kind::managed && allocation->state == State::live
               ? cudaSuccess
               : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemPrefetchAsync_ptsz(const void* pointer, size_t bytes, cudaMemLocation location,
                                      unsigned flags, cudaStream_t stream) {
  return cudaMemPrefetchAsync(pointer, bytes, location, flags, per_thread_default(stream));
}
}

// Allocation, pools, host memory, copies, memsets.
#include <algorithm>

#include "runtime/copies.hpp"
#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

using Kind = Allocation::Kind;
using State = Allocation::State;

const char* direction(const Endpoint& to, const Endpoint& from) {
  auto host = [](const Endpoint& end) { return end.kind != Endpoint::Kind::device; };
  if (host(to)) return host(from) ? "host to host" : "device to host";
  if (host(from)) return "host to device";
  return to.device == from.device ? "device to device" : "peer to peer";
}

cudaError_t classify(Endpoint& end, const void* pointer, std::size_t span, bool write, const char* api) {
  Machine& m = machine();
  end.address = to_address(pointer);
  if (span == 0) {
    end.kind = m.memory.in_device_range(end.address) ? Endpoint::Kind::device : Endpoint::Kind::raw;
    return cudaSuccess;
  }
  Allocation* allocation = m.memory.find(end.address);
  if (!allocation) {
    if (m.memory.in_device_range(end.address)) {
      report(std::string(api) + (write ? ": target, " : ": source, ") +
             m.memory.explain(-1, end.address, span));
      return cudaErrorInvalidValue;
    }
    if (!pointer) return cudaErrorInvalidValue;
    end.kind = Endpoint::Kind::raw;
    return cudaSuccess;
  }
  if (allocation->state == State::freed || allocation->free_queued ||
      end.address + span > allocation->start + allocation->bytes) {
    if (allocation->kind == Kind::registered && allocation->state != State::freed) {
      end.kind = Endpoint::Kind::raw;  // only partly registered
      return cudaSuccess;
    }
    report(
        std::string(api) + (write ? ": target, " : ": source, ") + m.memory.explain(-1, end.address, span) +
        (allocation->free_queued && allocation->state != State::freed ? " (cudaFreeAsync was called for it)"
                                                                      : ""));
    return cudaErrorInvalidValue;
  }
  end.kind = allocation->on_device() ? Endpoint::Kind::device : Endpoint::Kind::pinned;
  end.device = allocation->device;
  return cudaSuccess;
}

bool direction_allowed(cudaMemcpyKind kind, const Endpoint& to, const Endpoint& from) {
  const bool to_raw = to.kind == Endpoint::Kind::raw, from_raw = from.kind == Endpoint::Kind::raw;
  const bool to_device = to.kind == Endpoint::Kind::device, from_device = from.kind == Endpoint::Kind::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return !to_raw && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && !from_raw;
    case cudaMemcpyDeviceToDevice: return !to_raw && !from_raw;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

std::size_t span_of(Shape shape, std::size_t pitch, std::size_t slice) {
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0) return 0;
  return (shape.depth - 1) * slice + (shape.height - 1) * pitch + shape.width;
}

StreamObject* legacy_stream(bool per_thread = false) {
  return resolve_stream(per_thread ? cudaStreamPerThread : cudaStreamLegacy, thread_state().device);
}

// A default-stream copy between devices is ordered with work of both.
void order_with_other_device(Lock&, StreamObject& stream, const OpPtr& op, const CopyWork& copy,
                             bool before) {
  if (!stream.legacy) return;
  for (const Endpoint* end : {&copy.to, &copy.from}) {
    if (end->kind != Endpoint::Kind::device || end->device == stream.device || end->device < 0) continue;
    Device& other = *machine().devices[end->device];
    if (before) continue;
    for (StreamObject* lane : other.streams)
      if (!(lane->flags & cudaStreamNonBlocking) && lane->lane.last && lane->lane.last != op)
        op->deps.push_back(lane->lane.last);
    OpPtr gate = make_op(end->device, EmptyWork{"order with a peer copy"});
    gate->deps.push_back(op);
    append(other.legacy->lane, gate);
  }
}

cudaError_t free_device(Lock& lock, const char* name, void* pointer) {
  Machine& m = machine();
  Allocation* allocation = m.memory.find(to_address(pointer));
  if (!allocation || allocation->start != to_address(pointer) ||
      !(allocation->kind == Kind::device || allocation->kind == Kind::managed)) {
    report(format("%s(%p): not a pointer from cudaMalloc", name, pointer));
    return cudaErrorInvalidValue;
  }
  if (allocation->state == State::freed || allocation->free_queued) {
    report(format("%s(%p): DOUBLE FREE of allocation #%llu, freed by %s", name, pointer,
                  static_cast<unsigned long long>(allocation->id),
                  allocation->free_queued && allocation->state != State::freed
                      ? "cudaFreeAsync"
                      : allocation->freed_by.c_str()));
    return cudaErrorInvalidValue;
  }
  if (cudaError_t error = wait_device(lock, allocation->device, name); error != cudaSuccess) return error;
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

cudaError_t allocate_from(Lock& lock, Call& call, void** pointer, std::size_t bytes, Pool& pool,
                          StreamObject& stream) {
  Machine& m = machine();
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaErrorInvalidValue;
  if (pool.max_size && pool.used + bytes > pool.max_size) return cudaErrorMemoryAllocation;
  Allocation* allocation =
      m.memory.allocate_device(pool.device, bytes, Kind::device, State::pending, call.name);
  // Memory whose free is queued can be had by running the queue.
  while (!allocation && step(lock) == Step::ran)
    allocation = m.memory.allocate_device(pool.device, bytes, Kind::device, State::pending, call.name);
  if (!allocation) return cudaErrorMemoryAllocation;
  allocation->pool = &pool;
  pool.used += allocation->charged;
  pool.cached -= std::min<std::uint64_t>(pool.cached, allocation->charged);
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.used + pool.cached);
  allocation->from_graph = stream.capture != nullptr;
  *pointer = reinterpret_cast<void*>(allocation->start);
  call.info =
      format("%zu bytes -> %p, stream %llu", bytes, *pointer, static_cast<unsigned long long>(stream.id));
  return submit(lock, stream, AllocateWork{allocation});
}

cudaError_t host_allocate(Call& call, void** pointer, std::size_t bytes, unsigned flags) {
  Machine& m = machine();
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (flags & ~(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
    return cudaErrorInvalidValue;
  if (bytes == 0) return cudaSuccess;
  Allocation* allocation = m.memory.allocate_host(bytes, Kind::pinned, thread_state().device, call.name);
  if (!allocation) return cudaErrorMemoryAllocation;
  allocation->flags = flags;
  *pointer = allocation->host;
  call.info = format("%zu bytes -> %p", bytes, *pointer);
  return cudaSuccess;
}

Pool* find_pool(cudaMemPool_t handle) {
  return machine().pools.count(handle) ? reinterpret_cast<Pool*>(handle) : nullptr;
}

bool valid_device(int device) { return device >= 0 && device < static_cast<int>(machine().devices.size()); }

}  // namespace

cudaError_t make_copy(CopyWork& copy, void* to, std::size_t to_pitch, std::size_t to_slice, const void* from,
                      std::size_t from_pitch, std::size_t from_slice, Shape shape, cudaMemcpyKind kind,
                      const char* api) {
  copy.width = shape.width;
  copy.height = shape.height;
  copy.depth = shape.depth;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (shape.height > 1 && (to_pitch < shape.width || from_pitch < shape.width))
    return cudaErrorInvalidPitchValue;
  if (cudaError_t error = classify(copy.to, to, span_of(shape, to_pitch, to_slice), true, api);
      error != cudaSuccess)
    return error;
  if (cudaError_t error = classify(copy.from, from, span_of(shape, from_pitch, from_slice), false, api);
      error != cudaSuccess)
    return error;
  copy.to.pitch = to_pitch;
  copy.to.slice = to_slice;
  copy.from.pitch = from_pitch;
  copy.from.slice = from_slice;
  if (copy.bytes() && !direction_allowed(kind, copy.to, copy.from)) {
    report(format("%s: the copy is %s, which contradicts its cudaMemcpyKind %d", api,
                  direction(copy.to, copy.from), kind));
    return cudaErrorInvalidValue;
  }
  copy.direction = direction(copy.to, copy.from);
  return cudaSuccess;
}

cudaError_t make_copy(CopyWork& copy, const cudaMemcpy3DParms& p, const char* api) {
  if (p.srcArray || p.dstArray) {
    report(std::string(api) + ": CUDA arrays are not supported");
    return cudaErrorNotSupported;
  }
  auto slice = [&](const cudaPitchedPtr& end) {
    return end.pitch * (end.ysize ? end.ysize : p.extent.height);
  };
  auto start = [&](const cudaPitchedPtr& end, const cudaPos& at) {
    return static_cast<char*>(end.ptr) + at.z * slice(end) + at.y * end.pitch + at.x;
  };
  return make_copy(copy, start(p.dstPtr, p.dstPos), p.dstPtr.pitch, slice(p.dstPtr),
                   start(p.srcPtr, p.srcPos), p.srcPtr.pitch, slice(p.srcPtr),
                   {p.extent.width, p.extent.height, p.extent.depth}, p.kind, api);
}

cudaError_t make_set(SetWork& set, void* to, std::size_t pitch, std::size_t slice, unsigned value,
                     unsigned element, Shape shape, const char* api) {
  set.address = to_address(to);
  set.pitch = pitch;
  set.slice = slice;
  set.width = shape.width;
  set.height = shape.height;
  set.depth = shape.depth;
  set.value = element == 1 ? value & 0xFF : element == 2 ? value & 0xFFFF : value;
  set.element = element;
  Endpoint end;
  if (cudaError_t error = classify(end, to, span_of(shape, pitch, slice), true, api); error != cudaSuccess)
    return error;
  if (set.bytes() && end.kind == Endpoint::Kind::raw) {
    report(std::string(api) + ": the target is pageable host memory");
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

// The call that owns the host buffer returns without the copy: it must not happen later.
static void abandon(const OpPtr& op) {
  if (!op->done && !op->running) op->work = EmptyWork{"abandoned copy"};
}

cudaError_t submit_copy(Lock& lock, StreamObject& stream, CopyWork copy, const char* name) {
  if (copy.bytes() == 0) return cudaSuccess;
  const bool to_raw = copy.to.kind == Endpoint::Kind::raw;
  const bool host_only = copy.to.kind != Endpoint::Kind::device && copy.from.kind != Endpoint::Kind::device;
  if (stream.capture) return submit(lock, stream, std::move(copy));
  if (copy.from.kind == Endpoint::Kind::raw) {
    const std::size_t span =
        (copy.depth - 1) * copy.from.slice + (copy.height - 1) * copy.from.pitch + copy.width;
    const char* source = reinterpret_cast<const char*>(copy.from.address);
    copy.snapshot = std::make_shared<std::vector<char>>(source, source + span);
    copy.from.kind = Endpoint::Kind::snapshot;
  }
  OpPtr op;
  CopyWork keep = copy;
  keep.snapshot.reset();
  if (cudaError_t error = submit(lock, stream, std::move(copy), &op); error != cudaSuccess) return error;
  if (!op->done) order_with_other_device(lock, stream, op, keep, false);
  if (to_raw || host_only) {
    if (cudaError_t error = wait_for(lock, op, name); error != cudaSuccess) {
      abandon(op);
      return error;
    }
    return machine().devices[stream.device]->sticky;
  }
  return cudaSuccess;
}

cudaError_t copy_now(Lock& lock, StreamObject& stream, CopyWork copy, const char* name) {
  if (copy.bytes() == 0) return cudaSuccess;
  const bool device_only = copy.to.kind == Endpoint::Kind::device && copy.from.kind == Endpoint::Kind::device;
  const bool staged = copy.from.kind == Endpoint::Kind::raw && copy.to.kind == Endpoint::Kind::device;
  if (staged && machine().config.lazy_memcpy) {
    if (cudaError_t error = wait_for(lock, stream.lane.last, name); error != cudaSuccess) return error;
    return submit_copy(lock, stream, std::move(copy), name);
  }
  if (cudaError_t error = submit_copy(lock, stream, std::move(copy), name); error != cudaSuccess)
    return error;
  if (device_only) return cudaSuccess;  // asynchronous to the host, as documented
  const OpPtr op = stream.lane.last;
  if (cudaError_t error = wait_for(lock, op, name); error != cudaSuccess) {
    abandon(op);
    return error;
  }
  return machine().devices[stream.device]->sticky;
}

namespace {

std::string copy_info(const CopyWork& copy, const StreamObject* stream) {
  if (!trace_on()) return {};
  return format("%s %zu bytes 0x%llx <- 0x%llx%s", copy.direction, copy.bytes(),
                static_cast<unsigned long long>(copy.to.address),
                static_cast<unsigned long long>(copy.from.address),
                stream ? (", " + stream->name()).c_str() : "");
}

cudaError_t copy_api(const char* name, void* to, std::size_t to_pitch, const void* from,
                     std::size_t from_pitch, Shape shape, cudaMemcpyKind kind, bool async,
                     cudaStream_t handle, bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    CopyWork copy;
    if (cudaError_t error = make_copy(copy, to, to_pitch, to_pitch * shape.height, from, from_pitch,
                                      from_pitch * shape.height, shape, kind, name);
        error != cudaSuccess)
      return error;
    call.info = copy_info(copy, stream);
    return async ? submit_copy(lock, *stream, std::move(copy), name)
                 : copy_now(lock, *stream, std::move(copy), name);
  });
}

cudaError_t set_api(const char* name, void* to, std::size_t pitch, std::size_t slice, int value, Shape shape,
                    bool async, cudaStream_t handle, bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    SetWork set;
    if (cudaError_t error = make_set(set, to, pitch, slice, static_cast<unsigned>(value), 1, shape, name);
        error != cudaSuccess)
      return error;
    if (set.bytes() == 0) return cudaSuccess;
    call.info = format("%p %zu bytes, %s", to, set.bytes(), stream->name().c_str());
    const bool host = !machine().memory.in_device_range(to_address(to));
    OpPtr op;
    if (cudaError_t error = submit(lock, *stream, set, &op); error != cudaSuccess) return error;
    if (!async && host) return wait_for(lock, op, name);  // pinned host memory is set synchronously
    return cudaSuccess;
  });
}

cudaError_t copy_3d(const char* name, const cudaMemcpy3DParms* p, bool async, cudaStream_t handle,
                    bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    if (!p) return cudaErrorInvalidValue;
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    CopyWork copy;
    if (cudaError_t error = make_copy(copy, *p, name); error != cudaSuccess) return error;
    call.info = copy_info(copy, stream);
    return async ? submit_copy(lock, *stream, std::move(copy), name)
                 : copy_now(lock, *stream, std::move(copy), name);
  });
}

cudaError_t copy_peer(const char* name, void* to, int to_device, const void* from, int from_device,
                      std::size_t bytes, bool async, cudaStream_t handle) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    if (!valid_device(to_device) || !valid_device(from_device)) return cudaErrorInvalidDevice;
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream();
    if (!stream) return cudaErrorInvalidResourceHandle;
    CopyWork copy;
    if (cudaError_t error =
            make_copy(copy, to, bytes, bytes, from, bytes, bytes, {bytes}, cudaMemcpyDefault, name);
        error != cudaSuccess)
      return error;
    if ((copy.to.kind == Endpoint::Kind::device && copy.to.device != to_device) ||
        (copy.from.kind == Endpoint::Kind::device && copy.from.device != from_device)) {
      report(format("%s: target is on device %d (said %d), source on device %d (said %d)", name,
                    copy.to.device, to_device, copy.from.device, from_device));
      return cudaErrorInvalidValue;
    }
    call.info = copy_info(copy, stream);
    return submit_copy(lock, *stream, std::move(copy), name);
  });
}

cudaError_t copy_symbol(const char* name, void* host, const void* symbol, std::size_t bytes,
                        std::size_t offset, cudaMemcpyKind kind, bool to_symbol, bool async,
                        cudaStream_t handle, bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    VariableHandle* variable = find_variable(symbol);
    if (!variable) return cudaErrorInvalidSymbol;
    if (offset > variable->bytes || bytes > variable->bytes - offset) return cudaErrorInvalidValue;
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const Address address = variable_address(*variable->module, thread_state().device, variable->name);
    if (!address) return cudaErrorInvalidSymbol;
    void* device = reinterpret_cast<void*>(address + offset);
    CopyWork copy;
    if (cudaError_t error =
            to_symbol ? make_copy(copy, device, bytes, bytes, host, bytes, bytes, {bytes}, kind, name)
                      : make_copy(copy, host, bytes, bytes, device, bytes, bytes, {bytes}, kind, name);
        error != cudaSuccess)
      return error;
    call.info = copy_info(copy, stream);
    return async ? submit_copy(lock, *stream, std::move(copy), name)
                 : copy_now(lock, *stream, std::move(copy), name);
  });
}

cudaStream_t per_thread_default(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }

cudaMemcpy3DParms plain_parameters(const cudaMemcpy3DPeerParms& p) {
  cudaMemcpy3DParms result{};
  result.srcArray = p.srcArray;
  result.srcPos = p.srcPos;
  result.srcPtr = p.srcPtr;
  result.dstArray = p.dstArray;
  result.dstPos = p.dstPos;
  result.dstPtr = p.dstPtr;
  result.extent = p.extent;
  result.kind = cudaMemcpyDefault;
  return result;
}

}  // namespace
}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

// ---- allocation

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
  return api("cudaMallocManaged", unsafe, [&](Lock&, Call& call) {
    if (!pointer || bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
      return cudaErrorInvalidValue;
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
             [&](Lock&, Call& call) { return host_allocate(call, pointer, bytes, 0); });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return api("cudaHostAlloc", unsafe,
             [&](Lock&, Call& call) { return host_allocate(call, pointer, bytes, flags); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return api("cudaFreeHost", unsafe, [&](Lock&, Call& call) {
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
    machine().memory.release(*allocation, "cudaFreeHost");
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return api("cudaHostRegister", unsafe, [&](Lock&, Call& call) {
    call.info = format("%p %zu bytes", pointer, bytes);
    if (!pointer || bytes == 0 ||
        (flags & ~(cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory |
                   cudaHostRegisterReadOnly)))
      return cudaErrorInvalidValue;
    if (machine().memory.overlapping(to_address(pointer), to_address(pointer) + bytes))
      return cudaErrorHostMemoryAlreadyRegistered;
    machine().memory.register_host(pointer, bytes, thread_state().device)->flags = flags;
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return api("cudaHostUnregister", unsafe, [&](Lock&, Call& call) {
    call.info = format("%p", pointer);
    Allocation* allocation = machine().memory.find(to_address(pointer));
    if (!allocation || allocation->kind != Kind::registered || allocation->start != to_address(pointer))
      return cudaErrorHostMemoryNotRegistered;
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

// ---- stream-ordered allocation

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t handle) {
  return api("cudaMallocAsync", plain, [&](Lock& lock, Call& call) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    return allocate_from(lock, call, pointer, bytes, *machine().devices[stream->device]->current_pool,
                         *stream);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t handle,
                                    cudaStream_t stream_handle) {
  return api("cudaMallocFromPoolAsync", plain, [&](Lock& lock, Call& call) {
    StreamObject* stream = resolve_stream(stream_handle, thread_state().device);
    Pool* pool = find_pool(handle);
    if (!stream || !pool) return cudaErrorInvalidResourceHandle;
    return allocate_from(lock, call, pointer, bytes, *pool, *stream);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return api("cudaFreeAsync", plain, [&](Lock& lock, Call& call) {
    if (!pointer) return cudaSuccess;
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    call.info = format("%p, %s", pointer, stream->name().c_str());
    Allocation* allocation = machine().memory.find(to_address(pointer));
    if (!allocation || allocation->start != to_address(pointer) || allocation->kind != Kind::device)
      return cudaErrorInvalidValue;
    if (allocation->state == State::freed || allocation->free_queued) {
      report(format("cudaFreeAsync(%p): DOUBLE FREE of allocation #%llu", pointer,
                    static_cast<unsigned long long>(allocation->id)));
      return cudaErrorInvalidValue;
    }
    const cudaError_t error = submit(lock, *stream, FreeWork{allocation});
    if (error == cudaSuccess && allocation->state != State::freed && !stream->capture)
      allocation->free_queued = true;
    return error;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, const cudaMemPoolProps* properties) {
  return api("cudaMemPoolCreate", unsafe, [&](Lock&, Call&) {
    if (!handle || !properties || properties->allocType != cudaMemAllocationTypePinned)
      return cudaErrorInvalidValue;
    if (properties->location.type != cudaMemLocationTypeDevice || !valid_device(properties->location.id))
      return cudaErrorInvalidValue;
    auto* pool = new Pool;
    pool->device = properties->location.id;
    pool->max_size = properties->maxSize;
    machine().pools.insert(pool);
    *handle = reinterpret_cast<cudaMemPool_t>(pool);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return api("cudaMemPoolDestroy", unsafe, [&](Lock&, Call&) {
    Pool* pool = find_pool(handle);
    if (!pool || pool->is_default) return cudaErrorInvalidValue;
    machine().pools.erase(pool);
    pool->destroyed = true;  // stays for allocations still out
    Device& device = *machine().devices[pool->device];
    if (device.current_pool == pool) device.current_pool = device.default_pool;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep) {
  return api("cudaMemPoolTrimTo", plain, [&](Lock&, Call&) {
    Pool* pool = find_pool(handle);
    if (!pool) return cudaErrorInvalidValue;
    if (pool->used + pool->cached > keep) pool->cached = keep > pool->used ? keep - pool->used : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return api("cudaMemPoolSetAttribute", plain, [&](Lock&, Call&) {
    Pool* pool = find_pool(handle);
    if (!pool || !value) return cudaErrorInvalidValue;
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
      case cudaMemPoolReuseAllowOpportunistic:
      case cudaMemPoolReuseAllowInternalDependencies:
        pool->reuse[attribute] = *static_cast<int*>(value);
        return cudaSuccess;
      case cudaMemPoolAttrReleaseThreshold:
        pool->release_threshold = *static_cast<std::uint64_t*>(value);
        return cudaSuccess;
      case cudaMemPoolAttrReservedMemHigh:
        if (*static_cast<std::uint64_t*>(value)) return cudaErrorInvalidValue;
        pool->reserved_high = pool->used + pool->cached;
        return cudaSuccess;
      case cudaMemPoolAttrUsedMemHigh:
        if (*static_cast<std::uint64_t*>(value)) return cudaErrorInvalidValue;
        pool->used_high = pool->used;
        return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return api("cudaMemPoolGetAttribute", plain, [&](Lock&, Call&) {
    Pool* pool = find_pool(handle);
    if (!pool || !value) return cudaErrorInvalidValue;
    auto& wide = *static_cast<std::uint64_t*>(value);
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
      case cudaMemPoolReuseAllowOpportunistic:
      case cudaMemPoolReuseAllowInternalDependencies:
        *static_cast<int*>(value) = pool->reuse[attribute];
        return cudaSuccess;
      case cudaMemPoolAttrReleaseThreshold: wide = pool->release_threshold; return cudaSuccess;
      case cudaMemPoolAttrReservedMemCurrent: wide = pool->used + pool->cached; return cudaSuccess;
      case cudaMemPoolAttrReservedMemHigh:
        wide = std::max(pool->reserved_high, pool->used + pool->cached);
        return cudaSuccess;
      case cudaMemPoolAttrUsedMemCurrent: wide = pool->used; return cudaSuccess;
      case cudaMemPoolAttrUsedMemHigh: wide = pool->used_high; return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* list, size_t count) {
  return api("cudaMemPoolSetAccess", plain, [&](Lock&, Call&) {
    Pool* pool = find_pool(handle);
    if (!pool || (!list && count)) return cudaErrorInvalidValue;
    for (std::size_t index = 0; index < count; ++index) {
      const cudaMemLocation& where = list[index].location;
      if (where.type != cudaMemLocationTypeDevice || !valid_device(where.id)) return cudaErrorInvalidDevice;
      if (where.id == pool->device && list[index].flags == cudaMemAccessFlagsProtNone)
        return cudaErrorInvalidValue;
      if (where.id != pool->device && !machine().config.peer_access()) return cudaErrorInvalidDevice;
      pool->access[where.id] = list[index].flags;
    }
    ++machine().memory.epoch;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t handle, cudaMemLocation* location) {
  return api("cudaMemPoolGetAccess", plain, [&](Lock&, Call&) {
    Pool* pool = find_pool(handle);
    if (!pool || !flags || !location || !valid_device(location->id)) return cudaErrorInvalidValue;
    *flags = location->id == pool->device       ? cudaMemAccessFlagsProtReadWrite
             : pool->access.count(location->id) ? pool->access[location->id]
                                                : cudaMemAccessFlagsProtNone;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api("cudaDeviceGetDefaultMemPool", plain, [&](Lock&, Call&) {
    if (!pool) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    *pool = reinterpret_cast<cudaMemPool_t>(machine().devices[device]->default_pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return api("cudaDeviceGetMemPool", plain, [&](Lock&, Call&) {
    if (!pool) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    *pool = reinterpret_cast<cudaMemPool_t>(machine().devices[device]->current_pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  return api("cudaDeviceSetMemPool", plain, [&](Lock&, Call&) {
    Pool* pool = find_pool(handle);
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    if (!pool || pool->device != device) return cudaErrorInvalidValue;
    machine().devices[device]->current_pool = pool;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType) {
  if (!location || location->type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
  return cudaDeviceGetDefaultMemPool(pool, location->id);
}
cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType) {
  if (!location || location->type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
  return cudaDeviceGetMemPool(pool, location->id);
}
cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType, cudaMemPool_t pool) {
  if (!location || location->type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
  return cudaDeviceSetMemPool(location->id, pool);
}

// ---- hints

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

// ---- copies

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy", to, bytes, from, bytes, {bytes}, kind, false, nullptr);
}
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy", to, bytes, from, bytes, {bytes}, kind, false, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_api("cudaMemcpyAsync", to, bytes, from, bytes, {bytes}, kind, true, stream);
}
cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, kind, per_thread_default(stream));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy2D", to, to_pitch, from, from_pitch, {width, height}, kind, false, nullptr);
}
cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy2D", to, to_pitch, from, from_pitch, {width, height}, kind, false, nullptr,
                  true);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_api("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, {width, height}, kind, true, stream);
}
cudaError_t cudaMemcpy2DAsync_ptsz(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, per_thread_default(stream));
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) { return copy_3d("cudaMemcpy3D", p, false, nullptr); }
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* p) {
  return copy_3d("cudaMemcpy3D", p, false, nullptr, true);
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return copy_3d("cudaMemcpy3DAsync", p, true, stream);
}
cudaError_t cudaMemcpy3DAsync_ptsz(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return cudaMemcpy3DAsync(p, per_thread_default(stream));
}
cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  if (!p) return cudaErrorInvalidValue;
  const cudaMemcpy3DParms same = plain_parameters(*p);
  return copy_3d("cudaMemcpy3DPeer", &same, false, nullptr);
}
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* p) { return cudaMemcpy3DPeer(p); }
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  if (!p) return cudaErrorInvalidValue;
  const cudaMemcpy3DParms same = plain_parameters(*p);
  return copy_3d("cudaMemcpy3DPeerAsync", &same, true, stream);
}
cudaError_t cudaMemcpy3DPeerAsync_ptsz(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  return cudaMemcpy3DPeerAsync(p, per_thread_default(stream));
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return copy_peer("cudaMemcpyPeer", to, to_device, from, from_device, bytes, false, nullptr);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return copy_peer("cudaMemcpyPeerAsync", to, to_device, from, from_device, bytes, true, stream);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyToSymbol", const_cast<void*>(from), symbol, bytes, offset, kind, true, false,
                     nullptr);
}
cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyToSymbol", const_cast<void*>(from), symbol, bytes, offset, kind, true, false,
                     nullptr, true);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind, false, false, nullptr);
}
cudaError_t cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind, false, false, nullptr, true);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_symbol("cudaMemcpyToSymbolAsync", const_cast<void*>(from), symbol, bytes, offset, kind, true,
                     true, stream);
}
cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void* symbol, const void* from, size_t bytes, size_t offset,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, per_thread_default(stream));
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_symbol("cudaMemcpyFromSymbolAsync", to, symbol, bytes, offset, kind, false, true, stream);
}
cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void* to, const void* symbol, size_t bytes, size_t offset,
                                           cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, per_thread_default(stream));
}

// ---- memsets

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return set_api("cudaMemset", to, bytes, bytes, value, {bytes}, false, nullptr);
}
cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return set_api("cudaMemset", to, bytes, bytes, value, {bytes}, false, nullptr, true);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return set_api("cudaMemsetAsync", to, bytes, bytes, value, {bytes}, true, stream);
}
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemsetAsync(to, value, bytes, per_thread_default(stream));
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return set_api("cudaMemset2D", to, pitch, pitch * height, value, {width, height}, false, nullptr);
}
cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return set_api("cudaMemset2D", to, pitch, pitch * height, value, {width, height}, false, nullptr, true);
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return set_api("cudaMemset2DAsync", to, pitch, pitch * height, value, {width, height}, true, stream);
}
cudaError_t cudaMemset2DAsync_ptsz(void* to, size_t pitch, int value, size_t width, size_t height,
                                   cudaStream_t stream) {
  return cudaMemset2DAsync(to, pitch, value, width, height, per_thread_default(stream));
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return set_api("cudaMemset3D", to.ptr, to.pitch, to.pitch * to.ysize, value,
                 {extent.width, extent.height, extent.depth}, false, nullptr);
}
cudaError_t cudaMemset3D_ptds(cudaPitchedPtr to, int value, cudaExtent extent) {
  return set_api("cudaMemset3D", to.ptr, to.pitch, to.pitch * to.ysize, value,
                 {extent.width, extent.height, extent.depth}, false, nullptr, true);
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return set_api("cudaMemset3DAsync", to.ptr, to.pitch, to.pitch * to.ysize, value,
                 {extent.width, extent.height, extent.depth}, true, stream);
}
cudaError_t cudaMemset3DAsync_ptsz(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return cudaMemset3DAsync(to, value, extent, per_thread_default(stream));
}

cudaError_t cudaMallocAsync_ptsz(void** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(pointer, bytes, per_thread_default(stream));
}
cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  return cudaFreeAsync(pointer, per_thread_default(stream));
}
cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, size_t bytes, cudaMemPool_t pool,
                                         cudaStream_t stream) {
  return cudaMallocFromPoolAsync(pointer, bytes, pool, per_thread_default(stream));
}
cudaError_t cudaMemPrefetchAsync_ptsz(const void* pointer, size_t bytes, cudaMemLocation location,
                                      unsigned flags, cudaStream_t stream) {
  return cudaMemPrefetchAsync(pointer, bytes, location, flags, per_thread_default(stream));
}
}

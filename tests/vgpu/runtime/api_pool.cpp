// Stream-ordered allocation and its pools.
#include <algorithm>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

using Kind = Allocation::Kind;
using State = Allocation::State;

// The driver may take memory whose free another stream has yet to reach, and makes the allocation wait for
// it.
void wait_for_freed_memory(Pool& pool, const StreamObject& stream, Op& allocation) {
  std::erase_if(pool.frees, [](const OpPtr& free) { return free->done; });
  if (!machine().config.strict.pool_dependencies || !pool.reuse[cudaMemPoolReuseAllowInternalDependencies])
    return;
  for (const OpPtr& free : pool.frees)
    if (free->lane != &stream.lane) {
      allocation.deps.push_back(free);
      return;
    }
}

cudaError_t allocate_from(Lock& lock, Call& call, void** pointer, std::size_t bytes, Pool& pool,
                          StreamObject& stream) {
  Machine& m = machine();
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaErrorInvalidValue;
  if (pool.max_size && pool.used + bytes > pool.max_size) return cudaErrorMemoryAllocation;
  if (!stream.capture && pool.used + bytes > pool.mapped) {
    if (cudaError_t error = wait_to_map(lock, pool.device, std::string(call.name) + ", whose pool grows,");
        error != cudaSuccess)
      return error;
    if (pool.used + bytes > pool.mapped) pool.map(pool.used + bytes);
  }
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
  OpPtr op;
  const cudaError_t error = submit(lock, stream, AllocateWork{allocation}, &op);
  if (op && !op->done) wait_for_freed_memory(pool, stream, *op);
  return error;
}

// What the pool has cached beyond `keep` bytes of its own.
cudaError_t give_back(Lock& lock, const Call& call, Pool& pool, std::size_t keep) {
  if (pool.cached == 0 || pool.used + pool.cached <= keep) return cudaSuccess;
  if (cudaError_t error = wait_to_map(lock, pool.device, call.name); error != cudaSuccess) return error;
  pool.cached = keep > pool.used ? keep - pool.used : 0;
  pool.unmap();
  return cudaSuccess;
}

Pool* find_pool(cudaMemPool_t handle) {
  return machine().pools.count(handle) ? reinterpret_cast<Pool*>(handle) : nullptr;
}

}  // namespace

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t handle) {
  return api("cudaMallocAsync", plain, [&](Lock& lock, Call& call) {
    if (!machine().config.memory_pools) return cudaErrorNotSupported;
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    return allocate_from(lock, call, pointer, bytes, *machine().devices[stream->device]->current_pool,
                         *stream);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t handle,
                                    cudaStream_t stream_handle) {
  return api("cudaMallocFromPoolAsync", plain, [&](Lock& lock, Call& call) {
    if (!machine().config.memory_pools) return cudaErrorNotSupported;
    StreamObject* stream = resolve_stream(stream_handle, thread_state().device);
    Pool* pool = find_pool(handle);
    if (!stream || !pool) return cudaErrorInvalidResourceHandle;
    return allocate_from(lock, call, pointer, bytes, *pool, *stream);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return api("cudaFreeAsync", plain, [&](Lock& lock, Call& call) {
    if (!machine().config.memory_pools) return cudaErrorNotSupported;
    if (!pointer) return cudaSuccess;
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    call.info = format("%p, %s", pointer, stream->name().c_str());
    Allocation* allocation = machine().memory.find(to_address(pointer));
    if (!allocation || allocation->start != to_address(pointer) || allocation->kind != Kind::device)
      return cudaErrorInvalidValue;
    if (allocation->is_freed()) {
      report(format("cudaFreeAsync(%p): DOUBLE FREE of allocation #%llu", pointer,
                    static_cast<unsigned long long>(allocation->id)));
      return cudaErrorInvalidValue;
    }
    if (machine().config.strict.graph_memory && stream->capture && !allocation->from_graph) {
      report(format(
          "cudaFreeAsync(%p) in a capture: allocation #%llu is no graph's, and a graph can free only what "
          "a graph has allocated",
          pointer, static_cast<unsigned long long>(allocation->id)));
      return cudaErrorInvalidValue;
    }
    OpPtr op;
    const cudaError_t error = submit(lock, *stream, FreeWork{allocation}, &op);
    if (op && !op->done && allocation->pool) allocation->pool->frees.push_back(op);
    if (!stream->capture) allocation->out = false;
    if (error == cudaSuccess && allocation->state != State::freed && !stream->capture)
      allocation->free_queued = true;
    return error;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, const cudaMemPoolProps* properties) {
  return api("cudaMemPoolCreate", unsafe, [&](Lock&, Call&) {
    if (!machine().config.memory_pools) return cudaErrorNotSupported;
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
  return api("cudaMemPoolDestroy", unsafe, [&](Lock& lock, Call& call) {
    Pool* pool = find_pool(handle);
    if (!pool || pool->is_default) return cudaErrorInvalidValue;
    if (cudaError_t error = give_back(lock, call, *pool, 0); error != cudaSuccess) return error;
    machine().pools.erase(pool);
    pool->destroyed = true;  // stays for allocations still out
    Device& device = *machine().devices[pool->device];
    if (device.current_pool == pool) device.current_pool = device.default_pool;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep) {
  return api("cudaMemPoolTrimTo", plain, [&](Lock& lock, Call& call) {
    Pool* pool = find_pool(handle);
    return pool ? give_back(lock, call, *pool, keep) : cudaErrorInvalidValue;
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
    if (!machine().config.memory_pools) return cudaErrorNotSupported;
    if (!pool) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    *pool = reinterpret_cast<cudaMemPool_t>(machine().devices[device]->default_pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return api("cudaDeviceGetMemPool", plain, [&](Lock&, Call&) {
    if (!machine().config.memory_pools) return cudaErrorNotSupported;
    if (!pool) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    *pool = reinterpret_cast<cudaMemPool_t>(machine().devices[device]->current_pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  return api("cudaDeviceSetMemPool", plain, [&](Lock&, Call&) {
    if (!machine().config.memory_pools) return cudaErrorNotSupported;
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
}

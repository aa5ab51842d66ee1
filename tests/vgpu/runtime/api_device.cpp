// Devices: selection, properties, attributes, limits, peers.
#include <algorithm>
#include <cstdio>

#include "runtime/launch.hpp"

namespace vgpu::rt {
namespace {

cudaDeviceProp properties(int device) {
  const Config& c = machine().config;
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "vGPU");
  const char tag[] = "vgpu-device-";
  std::memcpy(p.uuid.bytes, tag, 12);
  p.uuid.bytes[15] = static_cast<char>(device);
  p.totalGlobalMem = c.memory;
  p.sharedMemPerBlock = 48 << 10;
  p.regsPerBlock = 65536;
  p.warpSize = 32;
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 64 << 10;
  p.major = c.capability(device) / 10;
  p.minor = c.capability(device) % 10;
  p.textureAlignment = 512;
  p.texturePitchAlignment = 32;
  p.multiProcessorCount = c.sms;
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.pciBusID = 0x10 + device;
  p.pciDeviceID = 0;
  p.pciDomainID = 0;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 5120;
  p.l2CacheSize = 50 << 20;
  p.persistingL2CacheMaxSize = 32 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = shared_memory(device);
  p.regsPerMultiprocessor = 65536;
  p.managedMemory = 1;
  p.hostNativeAtomicSupported = 0;
  p.pageableMemoryAccess = 0;
  p.concurrentManagedAccess = 1;
  p.computePreemptionSupported = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = 1;
  p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor - (1 << 10);
  p.maxBlocksPerMultiProcessor = 32;
  p.accessPolicyMaxWindowSize = 128 << 20;
  p.reservedSharedMemPerBlock = 1 << 10;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = c.memory_pools;
  p.gpuPciDeviceID = 0x233010DE;
  p.hostNumaId = 0;
  p.deviceNumaId = -1;
  p.clusterLaunch = 0;
  return p;
}

int attribute(cudaDeviceAttr which, int device, bool& known) {
  const cudaDeviceProp p = properties(device);
  known = true;
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX: return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY: return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ: return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX: return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY: return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ: return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock: return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory: return static_cast<int>(p.totalConstMem);
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxPitch: return 2147483647;
    case cudaDevAttrMaxRegistersPerBlock: return p.regsPerBlock;
    case cudaDevAttrClockRate: return 1980000;
    case cudaDevAttrTextureAlignment: return 512;
    case cudaDevAttrTexturePitchAlignment: return 32;
    case cudaDevAttrGpuOverlap: return 1;
    case cudaDevAttrMultiProcessorCount: return p.multiProcessorCount;
    case cudaDevAttrCanMapHostMemory: return 1;
    case cudaDevAttrConcurrentKernels: return 1;
    case cudaDevAttrEccEnabled: return 1;
    case cudaDevAttrPciBusId: return p.pciBusID;
    case cudaDevAttrPciDeviceId: return p.pciDeviceID;
    case cudaDevAttrPciDomainId: return p.pciDomainID;
    case cudaDevAttrMemoryClockRate: return 2619000;
    case cudaDevAttrGlobalMemoryBusWidth: return p.memoryBusWidth;
    case cudaDevAttrL2CacheSize: return p.l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrAsyncEngineCount: return p.asyncEngineCount;
    case cudaDevAttrUnifiedAddressing: return 1;
    case cudaDevAttrComputeCapabilityMajor: return p.major;
    case cudaDevAttrComputeCapabilityMinor: return p.minor;
    case cudaDevAttrStreamPrioritiesSupported: return 1;
    case cudaDevAttrGlobalL1CacheSupported: return 1;
    case cudaDevAttrLocalL1CacheSupported: return 1;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrMaxRegistersPerMultiprocessor: return p.regsPerMultiprocessor;
    case cudaDevAttrManagedMemory: return 1;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return 2;
    case cudaDevAttrConcurrentManagedAccess: return 1;
    case cudaDevAttrComputePreemptionSupported: return 1;
    case cudaDevAttrCanUseHostPointerForRegisteredMem: return 1;
    case cudaDevAttrCooperativeLaunch: return 1;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrHostRegisterSupported: return 1;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrMaxPersistingL2CacheSize: return p.persistingL2CacheMaxSize;
    case cudaDevAttrMaxAccessPolicyWindowSize: return p.accessPolicyMaxWindowSize;
    case cudaDevAttrReservedSharedMemoryPerBlock: return static_cast<int>(p.reservedSharedMemPerBlock);
    case cudaDevAttrMemoryPoolsSupported: return p.memoryPoolsSupported;
    case cudaDevAttrComputeMode:
      switch (machine().config.mode(device)) {
        case Config::Mode::normal: return cudaComputeModeDefault;
        case Config::Mode::prohibited: return cudaComputeModeProhibited;
        default: return cudaComputeModeExclusiveProcess;
      }
    case cudaDevAttrMemSyncDomainCount: return 4;
    case cudaDevAttrNumaId: return -1;
    case cudaDevAttrGpuPciDeviceId: return static_cast<int>(p.gpuPciDeviceID);
    default:
      // Everything else is off: textures, clusters, integrated, IPC, RDMA, ...
      known = which >= 1 && which < cudaDevAttrMax;
      return 0;
  }
}

}  // namespace
}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return cudaErrorInvalidValue;
  *count = 0;
  cudaError_t error = unusable();
  if (error == cudaSuccess) error = injected("cudaGetDeviceCount");
  if (error != cudaSuccess) {
    thread_state().last_error = error;
    return error;
  }
  *count = static_cast<int>(machine().devices.size());
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  return api("cudaGetDevice", no_sticky, [&](Lock&, Call& call) {
    call.quiet = true;
    if (!device) return cudaErrorInvalidValue;
    *device = thread_state().device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api("cudaSetDevice", no_sticky, [&](Lock&, Call& call) {
    call.info = std::to_string(device);
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    if (const cudaError_t error = use_context(device, call.name); error != cudaSuccess) return error;
    thread_state().device = thread_state().selected = device;
    return machine().devices[device]->sticky;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return api("cudaInitDevice", no_sticky,
             [&](Lock&, Call&) { return valid_device(device) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaSetValidDevices(int* list, int count) {
  return api("cudaSetValidDevices", no_sticky, [&](Lock&, Call&) {
    for (int index = 0; index < count; ++index)
      if (!valid_device(list[index])) return cudaErrorInvalidDevice;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return api("cudaSetDeviceFlags", plain, [&](Lock&, Call&) {
    machine().devices[thread_state().device]->flags = flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return api("cudaGetDeviceFlags", plain, [&](Lock&, Call&) {
    if (!flags) return cudaErrorInvalidValue;
    *flags = machine().devices[thread_state().device]->flags | cudaDeviceMapHost;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* result, int device) {
  return api("cudaGetDeviceProperties", no_sticky, [&](Lock&, Call& call) {
    call.quiet = true;
    if (!result) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    *result = properties(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return api("cudaDeviceGetAttribute", no_sticky, [&](Lock&, Call& call) {
    call.quiet = true;
    if (!value) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    bool known = false;
    *value = attribute(which, device, known);
    return known ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  return api("cudaChooseDevice", no_sticky, [&](Lock&, Call&) {
    if (!device || !wanted) return cudaErrorInvalidValue;
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return api("cudaDeviceGetPCIBusId", no_sticky, [&](Lock&, Call&) {
    if (!text || length <= 0) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, length, "0000:%02X:00.0", 0x10 + device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return api("cudaDeviceGetByPCIBusId", no_sticky, [&](Lock&, Call&) {
    if (!device || !text) return cudaErrorInvalidValue;
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3 &&
        std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) < 2)
      return cudaErrorInvalidValue;
    const int found = static_cast<int>(bus) - 0x10;
    if (domain || slot || function || !valid_device(found)) return cudaErrorInvalidDevice;
    *device = found;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api("cudaDeviceSynchronize", plain, [&](Lock& lock, Call& call) {
    Machine& m = machine();
    const int device = thread_state().device;
    for (const auto& session : m.captures)
      for (StreamObject* stream : session->streams)
        if (stream->device == device) {
          invalidate(*session, cudaErrorStreamCaptureUnsupported, "cudaDeviceSynchronize during capture");
          return cudaErrorStreamCaptureUnsupported;
        }
    if (cudaError_t error = wait_device(lock, device, call.name); error != cudaSuccess) return error;
    for (const void* handle : m.pools) {
      Pool* pool = const_cast<Pool*>(static_cast<const Pool*>(handle));
      if (pool->device == device && pool->used + pool->cached > pool->release_threshold) {
        pool->cached = pool->release_threshold > pool->used ? pool->release_threshold - pool->used : 0;
        pool->unmap();
      }
    }
    return m.devices[device]->sticky;
  });
}

cudaError_t cudaDeviceReset() {
  return api("cudaDeviceReset", no_sticky, [&](Lock& lock, Call& call) {
    Machine& m = machine();
    const int device = thread_state().device;
    Device& d = *m.devices[device];
    if (cudaError_t error = wait_device(lock, device, call.name); error != cudaSuccess) return error;
    for (Allocation* allocation : m.memory.all())
      if (allocation->device == device && allocation->kind == Allocation::Kind::device &&
          allocation->state != Allocation::State::freed)
        m.memory.release(*allocation, "cudaDeviceReset");
    std::erase_if(m.streams, [&](auto& entry) { return entry.second->device == device; });
    std::erase_if(d.streams, [&](StreamObject* stream) { return !stream->legacy && !stream->per_thread; });
    std::erase_if(m.events, [&](auto& entry) { return entry.second->device == device; });
    d.default_pool->used = d.default_pool->cached = d.default_pool->mapped = 0;
    d.current_pool = d.default_pool;
    d.sticky = cudaSuccess;
    d.sticky_message.clear();
    for (auto& row : m.memory.peer) row[device] = false;
    std::fill(m.memory.peer[device].begin(), m.memory.peer[device].end(), false);
    ++m.memory.epoch;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return api("cudaDeviceSetLimit", plain, [&](Lock&, Call&) {
    if (limit < 0 || limit > cudaLimitPersistingL2CacheSize) return cudaErrorUnsupportedLimit;
    machine().devices[thread_state().device]->limits[limit] = value;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return api("cudaDeviceGetLimit", plain, [&](Lock&, Call&) {
    if (!value) return cudaErrorInvalidValue;
    if (limit < 0 || limit > cudaLimitPersistingL2CacheSize) return cudaErrorUnsupportedLimit;
    *value = machine().devices[thread_state().device]->limits[limit];
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* value) {
  if (value) *value = cudaFuncCachePreferNone;
  return value ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api("cudaDeviceCanAccessPeer", no_sticky, [&](Lock&, Call&) {
    if (!can) return cudaErrorInvalidValue;
    if (!valid_device(device) || !valid_device(peer)) return cudaErrorInvalidDevice;
    *can = device != peer && machine().config.peer_access();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr which, int from, int to) {
  return api("cudaDeviceGetP2PAttribute", no_sticky, [&](Lock&, Call&) {
    if (!value) return cudaErrorInvalidValue;
    if (!valid_device(from) || !valid_device(to) || from == to) return cudaErrorInvalidDevice;
    const Config& config = machine().config;
    switch (which) {
      case cudaDevP2PAttrPerformanceRank:
        *value = config.link == Config::Link::nvlink ? 0 : 1;
        return cudaSuccess;
      case cudaDevP2PAttrAccessSupported: *value = config.peer_access(); return cudaSuccess;
      case cudaDevP2PAttrNativeAtomicSupported:
        *value = config.link == Config::Link::nvlink;
        return cudaSuccess;
      case cudaDevP2PAttrOnlyPartialNativeAtomicSupported:
      case cudaDevP2PAttrCudaArrayAccessSupported: *value = 0; return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api("cudaDeviceEnablePeerAccess", plain, [&](Lock& lock, Call& call) {
    call.info = std::to_string(peer);
    Machine& m = machine();
    const int device = thread_state().device;
    if (flags) return cudaErrorInvalidValue;
    if (!valid_device(peer) || peer == device) return cudaErrorInvalidDevice;
    if (!m.config.peer_access()) return cudaErrorPeerAccessUnsupported;
    if (m.memory.peer[device][peer]) return cudaErrorPeerAccessAlreadyEnabled;
    for (int mapping : {device, peer})
      if (cudaError_t error = wait_to_map(lock, mapping, call.name); error != cudaSuccess) return error;
    m.memory.peer[device][peer] = true;
    ++m.memory.epoch;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api("cudaDeviceDisablePeerAccess", plain, [&](Lock&, Call&) {
    Machine& m = machine();
    const int device = thread_state().device;
    if (!valid_device(peer)) return cudaErrorInvalidDevice;
    if (!m.memory.peer[device][peer]) return cudaErrorPeerAccessNotEnabled;
    m.memory.peer[device][peer] = false;
    ++m.memory.epoch;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version) *version = machine().config.driver;
  return version ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version) *version = CUDART_VERSION;
  return version ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* status) {
  return api("cudaGetDriverEntryPointByVersion", no_sticky, [&](Lock&, Call& call) {
    if (!symbol || !function) return cudaErrorInvalidValue;
    call.info = symbol;
    *function = driver_function(symbol);
    if (*function) {
      if (status) *status = cudaDriverEntryPointSuccess;
      return cudaSuccess;
    }
    if (status) *status = cudaDriverEntryPointSymbolNotFound;
    report(std::string("cudaGetDriverEntryPoint: the driver API is not modelled (") + symbol + ")");
    return cudaErrorSymbolNotFound;
  });
}
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned version,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, version, flags, status);
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, status);
}
cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, status);
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
}

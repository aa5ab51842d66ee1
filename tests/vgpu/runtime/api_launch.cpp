// Kernel launches, function attributes, occupancy.
#include <algorithm>

#include "runtime/launch.hpp"

namespace vgpu::rt {
namespace {

constexpr std::size_t shared_reserved = 1 << 10;

// Of the current device.
std::size_t shared_per_sm() { return shared_memory(thread_state().device); }
std::size_t shared_optin() { return shared_per_sm() - shared_reserved; }

int blocks_per_sm(const KernelHandle& kernel, int threads, std::size_t dynamic) {
  const KernelInfo& info = *kernel.info;
  if (threads <= 0 || threads > static_cast<int>(std::min<std::uint32_t>(1024, info.max_threads_per_block)))
    return 0;
  const int warps = (threads + 31) / 32;
  int blocks = std::min(32, 64 / warps);
  const int registers = std::max(1, static_cast<int>(std::min<std::uint32_t>(info.registers, 255)));
  const int per_warp = (registers * 32 + 255) / 256 * 256;
  blocks = std::min(blocks, 65536 / (per_warp * warps));
  const std::size_t shared = (info.static_shared_bytes + dynamic + shared_reserved + 127) / 128 * 128;
  if (info.static_shared_bytes + dynamic > shared_optin()) return 0;
  return std::min<int>(blocks, static_cast<int>(shared_per_sm() / shared));
}

// With lazy loading a kernel's first use on a device loads it, which may wait for all that the device has to
// do, while no other thread can load one.
cudaError_t load(Lock& lock, KernelHandle& kernel, const char* call) {
  Machine& m = machine();
  const int device = thread_state().device;
  if (kernel.loaded.count(device) || !m.config.strict.lazy_loading) return cudaSuccess;
  const std::string what =
      format("%s of %s, which loads it on device %d,", call, kernel.pretty.c_str(), device);
  cudaError_t error = cudaSuccess;
  if (m.is_loading)
    error = wait_until(
        lock, [&] { return !m.is_loading; }, what + " after another thread's");
  if (error != cudaSuccess) return error;
  m.is_loading = true;
  error = stall(lock, device, what);
  m.is_loading = false;
  ++m.progress;
  m.changed.notify_all();
  if (error == cudaSuccess) kernel.loaded.insert(device);
  return error;
}

cudaError_t launch(Lock& lock, Call& call, KernelHandle* kernel, dim3 grid, dim3 block, void** arguments,
                   std::size_t shared, cudaStream_t handle, bool cooperative) {
  StreamObject* stream = resolve_stream(handle, thread_state().device);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  call.info = format("%s <<<(%u,%u,%u),(%u,%u,%u),%zu>>>, %s", kernel->pretty.c_str(), grid.x, grid.y, grid.z,
                     block.x, block.y, block.z, shared, stream->name().c_str());
  if (stream->device != thread_state().device) {
    report(format("launch of %s: the stream belongs to device %d but device %d is current",
                  kernel->pretty.c_str(), stream->device, thread_state().device));
    return cudaErrorInvalidResourceHandle;
  }
  KernelWork work;
  if (cudaError_t error = make_kernel(work, *kernel, grid, block, arguments, shared, cooperative);
      error != cudaSuccess)
    return error;
  if (!stream->capture)
    if (cudaError_t error = load(lock, *kernel, call.name); error != cudaSuccess) return error;
  return submit(lock, *stream, std::move(work));
}

}  // namespace

// CUDA Programming Guide, technical specifications per compute capability.
std::size_t shared_memory(int device) {
  switch (machine().config.capability(device)) {
    case 75: return 64 << 10;
    case 80:
    case 87: return 164 << 10;
    case 86:
    case 89:
    case 120:
    case 121: return 100 << 10;
    default: return 228 << 10;
  }
}

cudaError_t make_kernel(KernelWork& work, KernelHandle& kernel, dim3 grid, dim3 block, void** arguments,
                        std::size_t shared, bool cooperative) {
  if (cudaError_t error = ready_kernel(kernel); error != cudaSuccess) return error;
  const KernelInfo& info = *kernel.info;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024)
    return cudaErrorInvalidConfiguration;
  if (threads > info.max_threads_per_block) {
    report(format("launch of %s with %llu threads per block; its bound is %u", kernel.pretty.c_str(),
                  static_cast<unsigned long long>(threads), info.max_threads_per_block));
    return cudaErrorInvalidValue;
  }
  if (shared > static_cast<std::size_t>(kernel.max_dynamic_shared) ||
      info.static_shared_bytes + shared > shared_optin() ||
      (info.static_shared_bytes + shared > (48u << 10) && kernel.max_dynamic_shared <= (48 << 10))) {
    report(
        format("launch of %s with %zu bytes of dynamic and %zu of static shared memory: more than allowed "
               "(cudaFuncSetAttribute)",
               kernel.pretty.c_str(), shared, info.static_shared_bytes));
    return cudaErrorInvalidValue;
  }
  if (cooperative) {
    const std::uint64_t room =
        static_cast<std::uint64_t>(blocks_per_sm(kernel, static_cast<int>(threads), shared)) *
        machine().config.sms;
    if (std::uint64_t{grid.x} * grid.y * grid.z > room) return cudaErrorCooperativeLaunchTooLarge;
  }
  work.kernel = &kernel;
  work.grid = {grid.x, grid.y, grid.z};
  work.block = {block.x, block.y, block.z};
  work.shared = shared;
  work.cooperative = cooperative;
  work.parameters.assign(info.parameter_bytes, std::byte{0});
  for (std::size_t index = 0; index < info.parameter_sizes.size(); ++index) {
    if (!arguments || !arguments[index]) return cudaErrorInvalidValue;
    std::memcpy(work.parameters.data() + info.parameter_offsets[index], arguments[index],
                info.parameter_sizes[index]);
  }
  return cudaSuccess;
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return api("cudaLaunchKernel", plain, [&](Lock& lock, Call& call) {
    return launch(lock, call, find_kernel(function), grid, block, arguments, shared, stream, false);
  });
}
cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block, void** arguments,
                                  size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared, stream ? stream : cudaStreamPerThread);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel_ptsz(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        size_t shared, cudaStream_t stream) {
  return api("cudaLaunchCooperativeKernel", plain, [&](Lock& lock, Call& call) {
    return launch(lock, call, find_kernel(function), grid, block, arguments, shared, stream, true);
  });
}
cudaError_t cudaLaunchCooperativeKernel_ptsz(const void* function, dim3 grid, dim3 block, void** arguments,
                                             size_t shared, cudaStream_t stream) {
  return cudaLaunchCooperativeKernel(function, grid, block, arguments, shared,
                                     stream ? stream : cudaStreamPerThread);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return api("cudaLaunchKernel", plain, [&](Lock& lock, Call& call) {
    if (!config) return cudaErrorInvalidValue;
    bool cooperative = false;
    for (unsigned index = 0; index < config->numAttrs; ++index) {
      const cudaLaunchAttribute& attribute = config->attrs[index];
      if (attribute.id == cudaLaunchAttributeCooperative) cooperative = attribute.val.cooperative != 0;
      if (attribute.id == cudaLaunchAttributeClusterDimension) {
        const auto& cluster = attribute.val.clusterDim;
        if (cluster.x * cluster.y * cluster.z > 1) {
          report("thread block clusters are not supported");
          return cudaErrorNotSupported;
        }
      }
    }
    return launch(lock, call, find_kernel(function), config->gridDim, config->blockDim, arguments,
                  config->dynamicSmemBytes, config->stream, cooperative);
  });
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function,
                                     void** arguments) {
  if (!config) return cudaErrorInvalidValue;
  cudaLaunchConfig_t own = *config;
  if (!own.stream) own.stream = cudaStreamPerThread;
  return cudaLaunchKernelExC(&own, function, arguments);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* result, const void* function) {
  return api("cudaFuncGetAttributes", plain, [&](Lock& lock, Call& call) {
    call.quiet = true;
    KernelHandle* kernel = find_kernel(function);
    if (!result) return cudaErrorInvalidValue;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (cudaError_t error = ready_kernel(*kernel); error != cudaSuccess) return error;
    if (cudaError_t error = load(lock, *kernel, call.name); error != cudaSuccess) return error;
    std::memset(result, 0, sizeof *result);
    result->sharedSizeBytes = kernel->info->static_shared_bytes;
    result->localSizeBytes = kernel->info->local_bytes;
    result->maxThreadsPerBlock =
        static_cast<int>(std::min<std::uint32_t>(1024, kernel->info->max_threads_per_block));
    result->numRegs = static_cast<int>(kernel->info->registers);
    result->ptxVersion = kernel->module->ptx_version ? kernel->module->ptx_version : 75;
    // CUB picks its tuning by this: what was compiled, as after JIT compilation of the embedded PTX.
    result->binaryVersion = machine().config.capability(thread_state().device);
    result->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared;
    result->preferredShmemCarveout = kernel->carveout;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return api("cudaFuncSetAttribute", plain, [&](Lock&, Call&) {
    KernelHandle* kernel = find_kernel(function);
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (cudaError_t error = ready_kernel(*kernel); error != cudaSuccess) return error;
    switch (attribute) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || kernel->info->static_shared_bytes + value > shared_optin())
          return cudaErrorInvalidValue;
        kernel->max_dynamic_shared = value;
        return cudaSuccess;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100) return cudaErrorInvalidValue;
        kernel->carveout = value;
        return cudaSuccess;
      default: return cudaErrorNotSupported;
    }
  });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                            int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return api("cudaFuncSetCacheConfig", plain, [&](Lock&, Call&) {
    return find_kernel(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return api("cudaFuncGetName", plain, [&](Lock&, Call&) {
    KernelHandle* kernel = find_kernel(function);
    if (!name) return cudaErrorInvalidValue;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    *name = kernel->name.c_str();
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* bytes) {
  return api("cudaFuncGetParamInfo", plain, [&](Lock&, Call&) {
    KernelHandle* kernel = find_kernel(function);
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (cudaError_t error = ready_kernel(*kernel); error != cudaSuccess) return error;
    if (index >= kernel->info->parameter_sizes.size()) return cudaErrorInvalidValue;
    if (offset) *offset = kernel->info->parameter_offsets[index];
    if (bytes) *bytes = kernel->info->parameter_sizes[index];
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                   int threads, size_t shared, unsigned) {
  return api("cudaOccupancyMaxActiveBlocksPerMultiprocessor", plain, [&](Lock&, Call& call) {
    call.quiet = true;
    KernelHandle* kernel = find_kernel(function);
    if (!blocks) return cudaErrorInvalidValue;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (cudaError_t error = ready_kernel(*kernel); error != cudaSuccess) return error;
    if (threads <= 0) return cudaErrorInvalidValue;
    *blocks = blocks_per_sm(*kernel, threads, shared);
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int) {
  return api("cudaOccupancyAvailableDynamicSMemPerBlock", plain, [&](Lock&, Call&) {
    KernelHandle* kernel = find_kernel(function);
    if (!bytes || blocks <= 0) return cudaErrorInvalidValue;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (cudaError_t error = ready_kernel(*kernel); error != cudaSuccess) return error;
    const std::size_t each = shared_per_sm() / blocks;
    const std::size_t taken = kernel->info->static_shared_bytes + shared_reserved;
    *bytes = each > taken ? std::min<std::size_t>(each - taken, kernel->max_dynamic_shared) : 0;
    return cudaSuccess;
  });
}
}

// Just enough of the CUDA runtime for cub_test.cu to run on the executor, apart from ../../runtime: the PTX
// comes from the file that VGPU_TEST_PTX names, VGPU_TEST_SM is its architecture, VGPU_TEST_SEED the
// launches' seed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "exec/exec.hpp"

namespace {
struct HostMemory : vgpu::Memory {
  std::map<std::uintptr_t, std::size_t> blocks;
  void* resolve(int, std::uint64_t address, std::size_t bytes, bool) override {
    auto it = blocks.upper_bound(address);
    if (it == blocks.begin()) return nullptr;
    --it;
    std::uint64_t offset = address - it->first;
    return offset <= it->second && it->second - offset >= bytes ? reinterpret_cast<void*>(address) : nullptr;
  }
} g_memory;
// Registered before this file's own variables are initialised.
std::map<const void*, std::string>& functions() {
  static std::map<const void*, std::string> all;
  return all;
}
std::map<std::string, std::uint64_t, std::less<>> g_variables;
struct Configuration {
  dim3 grid, block;
  std::size_t shared;
} g_configuration;

std::uint64_t number(const char* name) {
  const char* t = std::getenv(name);
  return t ? std::strtoull(t, nullptr, 10) : 0;
}
vgpu::Module& module() {
  static std::shared_ptr<vgpu::Module> m = [] {
    std::ifstream f(std::getenv("VGPU_TEST_PTX"));
    std::stringstream s;
    s << f.rdbuf();
    auto loaded = vgpu::Module::load(s.str());
    for (const vgpu::Variable& v : loaded->variables()) {
      void* p = std::aligned_alloc(256, (v.bytes + 511) / 256 * 256);
      std::memcpy(p, v.initial.data(), v.bytes);
      g_memory.blocks[reinterpret_cast<std::uintptr_t>(p)] = v.bytes;
      g_variables[v.name] = reinterpret_cast<std::uintptr_t>(p);
    }
    for (const vgpu::Variable& v : loaded->variables())
      vgpu::relocate(v, reinterpret_cast<std::byte*>(g_variables[v.name]),
                     [](std::string_view n) { return g_variables.find(n)->second; });
    return loaded;
  }();
  return *m;
}
cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   bool cooperative) {
  const std::string& name = functions().at(function);
  const vgpu::KernelInfo* k = module().kernel(name);
  if (!k) {
    std::printf("no kernel %s\n", name.c_str());
    return cudaErrorInvalidDeviceFunction;
  }
  vgpu::Launch l;
  l.grid = {grid.x, grid.y, grid.z};
  l.block = {block.x, block.y, block.z};
  l.dynamic_shared_bytes = shared;
  l.cooperative = cooperative;
  l.seed = number("VGPU_TEST_SEED");
  l.parameters.resize(k->parameter_bytes);
  for (std::size_t i = 0; i < k->parameter_sizes.size(); ++i)
    std::memcpy(l.parameters.data() + k->parameter_offsets[i], arguments[i], k->parameter_sizes[i]);
  l.symbol = [](std::string_view n) { return g_variables.find(n)->second; };
  try {
    vgpu::execute(module(), name, l, g_memory);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    std::exit(1);
  }
  return cudaSuccess;
}
}  // namespace

extern "C" {
void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  functions()[host] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 0; }
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void*) {
  g_configuration = {grid, block, shared};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = g_configuration.grid, *block = g_configuration.block, *shared = g_configuration.shared;
  *static_cast<void**>(stream) = nullptr;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* f) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(f));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 block, void** a, size_t shared, cudaStream_t) {
  return launch(k, grid, block, a, shared, false);
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** a, size_t shared, cudaStream_t) {
  return launch(f, grid, block, a, shared, false);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** a) {
  return launch(f, c->gridDim, c->blockDim, a, c->dynamicSmemBytes, false);
}
cudaError_t cudaMalloc(void** p, size_t n) {
  *p = std::aligned_alloc(256, (n + 511) / 256 * 256);
  g_memory.blocks[reinterpret_cast<std::uintptr_t>(*p)] = n;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  g_memory.blocks.erase(reinterpret_cast<std::uintptr_t>(p));
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind) {
  std::memcpy(d, s, n);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(d, s, n);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* d, int v, size_t n, cudaStream_t) {
  std::memset(d, v, n);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetDevice(int* d) {
  *d = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* n) {
  *n = 1;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "error"; }
const char* cudaGetErrorName(cudaError_t) { return "error"; }
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) {
  int sm = static_cast<int>(number("VGPU_TEST_SM"));
  switch (a) {
    case cudaDevAttrComputeCapabilityMajor: *v = sm / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *v = sm % 10; break;
    case cudaDevAttrMultiProcessorCount: *v = 4; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = 48 * 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *v = 96 * 1024; break;
    case cudaDevAttrMaxGridDimX: *v = 0x7fffffff; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = 1024; break;
    default: *v = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* f) {
  std::memset(a, 0, sizeof *a);
  a->ptxVersion = a->binaryVersion = static_cast<int>(number("VGPU_TEST_SM"));
  a->maxThreadsPerBlock = 1024;
  if (const vgpu::KernelInfo* k = module().kernel(functions().at(f)))
    a->sharedSizeBytes = k->static_shared_bytes;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void*, int, size_t) {
  *n = 2;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void*, int, size_t,
                                                                   unsigned) {
  *n = 2;
  return cudaSuccess;
}
}

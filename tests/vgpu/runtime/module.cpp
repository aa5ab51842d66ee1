// Fat binaries: finding the PTX in them, registration of kernels and variables, and launches' handles.
#include <algorithm>

#include <cxxabi.h>

#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

// The layout of a fat binary's container and entries, as seen in nvcc's output.
struct Container {
  std::uint32_t magic;  // 0xBA55ED50
  std::uint16_t version, header_bytes;
  std::uint64_t body_bytes;
};
struct Entry {
  std::uint16_t kind, version;  // kind 1: PTX, 2: ELF
  std::uint32_t header_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t compressed_bytes, options_offset;
  std::uint16_t minor, major;
  std::uint32_t architecture;
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags;
};
struct Wrapper {
  std::int32_t magic, version;
  const void* data;
  void* other;
};
constexpr std::uint32_t container_magic = 0xBA55ED50;
constexpr std::int32_t wrapper_magic = 0x466243B1;
constexpr std::uint64_t flag_compressed_lz4 = 0x2000, flag_compressed = 0x1000, flag_compressed_zstd = 0x8000;

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<ModuleEntry>> modules;
  std::unordered_map<const void*, KernelHandle*> kernels;  // by host function and by handle
  std::unordered_map<const void*, VariableHandle*> variables;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

void find_ptx(const void* data, ModuleEntry& entry) {
  const auto* at = static_cast<const char*>(data);
  Container container;
  std::memcpy(&container, at, sizeof container);
  if (container.magic != container_magic) {
    // Perhaps plain PTX text (cudaLibraryLoadData).
    if (std::strncmp(at + std::strspn(at, " \t\r\n/"), ".version", 8) == 0 || std::strstr(at, ".version")) {
      entry.ptx = std::string_view(at);
      return;
    }
    entry.problem = "not a fat binary (bad magic number)";
    return;
  }
  const char* const end = at + container.header_bytes + container.body_bytes;
  at += container.header_bytes;
  bool compressed = false, machine_code = false;
  int best = -1;
  while (at + 16 <= end) {
    Entry item{};
    std::memcpy(&item, at, std::min<std::size_t>(sizeof item, end - at));
    if (item.header_bytes == 0) break;
    const char* payload = at + item.header_bytes;
    if (item.kind == 1) {
      const bool packed = item.compressed_bytes != 0 ||
                          (item.flags & (flag_compressed_lz4 | flag_compressed | flag_compressed_zstd));
      std::size_t length = strnlen(payload, item.payload_bytes);
      const bool text =
          !packed && std::string_view(payload, length).find(".version") != std::string_view::npos;
      if (text && (entry.lowest_ptx == 0 || static_cast<int>(item.architecture) < entry.lowest_ptx))
        entry.lowest_ptx = static_cast<int>(item.architecture);
      if (!text) {
        compressed = true;
      } else if (static_cast<int>(item.architecture) > best) {
        best = static_cast<int>(item.architecture);
        entry.ptx = std::string_view(payload, length);
        entry.ptx_version = best;
      }
    } else if (item.kind == 2) {
      machine_code = true;
    }
    at = payload + item.payload_bytes;
  }
  if (entry.ptx.empty())
    entry.problem = compressed ? "its PTX is compressed: build with nvcc --no-compress"
                    : machine_code
                        ? "it holds machine code only: build with PTX, e.g. nvcc -arch=sm_75 --no-compress"
                        : "it holds no PTX";
}

std::string demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  if (result.size() > 160) {
    // Template arguments of library kernels run to kilobytes.
    const auto cut = result.find('<');
    result = result.substr(0, std::min<std::size_t>(cut == std::string::npos ? 160 : cut, 160)) + "<...>";
  }
  return result;
}

}  // namespace

cudaError_t load_module(ModuleEntry& entry) {
  if (entry.module) return cudaSuccess;
  if (!entry.load_error.empty()) return cudaErrorInvalidPtx;
  if (!entry.problem.empty()) {
    entry.load_error = entry.problem;
    report("cannot run this program's kernels: the fat binary has no usable PTX: " + entry.problem);
    return cudaErrorNoKernelImageForDevice;
  }
  try {
    entry.module = Module::load(entry.ptx);
  } catch (const std::exception& exception) {
    entry.load_error = exception.what();
    report(std::string("cannot load PTX: ") + exception.what());
    return cudaErrorInvalidPtx;
  }
  return cudaSuccess;
}

KernelHandle* find_kernel(const void* function) {
  Registry& r = registry();
  std::lock_guard guard(r.mutex);
  auto found = r.kernels.find(function);
  return found == r.kernels.end() ? nullptr : found->second;
}

cudaError_t ready_kernel(KernelHandle& kernel) {
  if (machine().config.capability(thread_state().device) < kernel.module->lowest_ptx)
    return cudaErrorNoKernelImageForDevice;
  if (kernel.info) return cudaSuccess;
  if (cudaError_t error = load_module(*kernel.module); error != cudaSuccess) return error;
  kernel.info = kernel.module->module->kernel(kernel.name);
  if (!kernel.info) {
    report("the PTX holds no kernel " + kernel.name);
    return cudaErrorInvalidDeviceFunction;
  }
  if (kernel.info->static_shared_bytes > 48u << 10)
    report("kernel " + kernel.pretty + " uses more than 48 KiB of static shared memory");
  return cudaSuccess;
}

VariableHandle* find_variable(const void* symbol) {
  Registry& r = registry();
  std::lock_guard guard(r.mutex);
  auto found = r.variables.find(symbol);
  return found == r.variables.end() ? nullptr : found->second;
}

// Gives managed variables their memory and initial value. With the machine's lock held.
static bool initialise_managed(ModuleEntry& entry) {
  std::vector<VariableHandle*> list;
  {
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    for (auto& [host, variable] : r.variables)
      if (variable->module == &entry && variable->managed_pointer && !entry.managed.count(variable->name))
        list.push_back(variable);
  }
  for (VariableHandle* variable : list) {
    Allocation* allocation =
        machine().memory.allocate_host(variable->bytes, Allocation::Kind::managed, 0, "__managed__ variable");
    if (!allocation) return false;
    allocation->origin = "__managed__ " + variable->name;
    std::memset(allocation->host, 0, variable->bytes);
    if (load_module(entry) == cudaSuccess)
      for (const vgpu::Variable& known : entry.module->variables())
        if (known.name == variable->name && !known.initial.empty())
          std::memcpy(allocation->host, known.initial.data(),
                      std::min(known.initial.size(), variable->bytes));
    entry.managed[variable->name] = allocation;
    *variable->managed_pointer = allocation->host;
  }
  return true;
}

// With the machine's lock held.
Address variable_address(ModuleEntry& entry, int device, std::string_view name) {
  const std::string key(name);
  if (auto found = entry.managed.find(key); found != entry.managed.end()) return found->second->start;
  if (load_module(entry) != cudaSuccess) return 0;
  for (const vgpu::Variable& variable : entry.module->variables())
    if (variable.name == name && variable.managed) {
      initialise_managed(entry);
      if (auto found = entry.managed.find(key); found != entry.managed.end()) return found->second->start;
    }
  auto& slot = entry.variables[{device, key}];
  if (slot) return slot->start;
  for (const vgpu::Variable& variable : entry.module->variables()) {
    if (variable.name != name) continue;
    slot = machine().memory.allocate_device(device, std::max<std::size_t>(variable.bytes, 1),
                                            Allocation::Kind::symbol, Allocation::State::live,
                                            "module variable");
    if (!slot) return 0;
    slot->origin = "variable " + key;
    if (!variable.initial.empty())
      std::memcpy(slot->host, variable.initial.data(), std::min(variable.initial.size(), variable.bytes));
    else
      std::memset(slot->host, 0, variable.bytes);
    if (!variable.relocations.empty())
      relocate(variable, reinterpret_cast<std::byte*>(slot->host),
               [&](std::string_view other) { return variable_address(entry, device, other); });
    return slot->start;
  }
  entry.variables.erase({device, key});
  return 0;
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

void** __cudaRegisterFatBinary(void* cubin) {
  auto entry = std::make_unique<ModuleEntry>();
  Wrapper wrapper;
  std::memcpy(&wrapper, cubin, sizeof wrapper);
  if (wrapper.magic != wrapper_magic)
    entry->problem = "unknown wrapper of the fat binary";
  else
    find_ptx(wrapper.data, *entry);
  if (wrapper.magic == wrapper_magic && wrapper.version == 2 && entry->ptx.empty() && wrapper.other) {
    // Relocatable device code: the fat binaries before linking. One of them can be used, several cannot be
    // linked here.
    auto** list = static_cast<void**>(wrapper.other);
    int count = 0;
    for (; list[count]; ++count) {
      ModuleEntry probe;
      find_ptx(list[count], probe);
      if (!probe.ptx.empty()) {
        entry->ptx = probe.ptx;
        entry->ptx_version = probe.ptx_version;
        entry->lowest_ptx = probe.lowest_ptx;
        entry->problem.clear();
      }
    }
    if (count > 1) {
      entry->ptx = {};
      entry->problem = "relocatable device code of several files (-rdc=true), which vgpu does not link";
    }
  }
  Registry& r = registry();
  std::lock_guard guard(r.mutex);
  r.modules.push_back(std::move(entry));
  return reinterpret_cast<void**>(r.modules.back().get());
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  if (handle) reinterpret_cast<ModuleEntry*>(handle)->unloaded = true;
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Registry& r = registry();
  std::lock_guard guard(r.mutex);
  auto* module = reinterpret_cast<ModuleEntry*>(handle);
  auto* kernel = new KernelHandle;
  kernel->module = module;
  kernel->name = name;
  kernel->pretty = demangle(name);
  kernel->host = host;
  module->kernels.push_back(kernel);
  r.kernels[host] = kernel;
  r.kernels[kernel] = kernel;
}

static VariableHandle* register_variable(void** handle, const void* host, const char* name, std::size_t bytes,
                                         int constant) {
  Registry& r = registry();
  std::lock_guard guard(r.mutex);
  auto* variable = new VariableHandle;
  variable->module = reinterpret_cast<ModuleEntry*>(handle);
  variable->name = name;
  variable->bytes = bytes;
  variable->constant = constant != 0;
  r.variables[host] = variable;
  return variable;
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t bytes, int constant,
                       int) {
  register_variable(handle, host, name, bytes, constant);
}

void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
void __cudaRegisterUnifiedTable(void**, void*) {}

void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t bytes,
                              int constant, int) {
  VariableHandle* variable = register_variable(handle, host, name, bytes, constant);
  variable->managed_pointer = host;
}

char __cudaInitModule(void** handle) {
  // The program calls this before it first uses a managed variable on the host; a kernel may come first.
  Machine& m = machine();
  Lock lock(m.mutex);
  return initialise_managed(*reinterpret_cast<ModuleEntry*>(handle)) ? 1 : 0;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  KernelHandle* found = find_kernel(function);
  if (!found) return cudaErrorInvalidDeviceFunction;
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return api("cudaGetKernel", no_sticky, [&](Lock&, Call&) {
    if (!kernel) return cudaErrorInvalidValue;
    return __cudaGetKernel(kernel, function);
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return api("cudaGetFuncBySymbol", no_sticky, [&](Lock&, Call&) {
    KernelHandle* found = find_kernel(symbol);
    if (!function) return cudaErrorInvalidValue;
    if (!found) return cudaErrorInvalidDeviceFunction;
    *function = reinterpret_cast<cudaFunction_t>(found);
    return cudaSuccess;
  });
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* stream) {
  thread_state().configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto& stack = thread_state().configurations;
  if (stack.empty()) return cudaErrorMissingConfiguration;
  *grid = stack.back().grid;
  *block = stack.back().block;
  *shared = stack.back().shared;
  *static_cast<cudaStream_t*>(stream) = stack.back().stream;
  stack.pop_back();
  return cudaSuccess;
}

// Libraries loaded at run time: one fat binary or PTX text.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, enum cudaJitOption*, void**,
                                unsigned, enum cudaLibraryOption*, void**, unsigned) {
  return api("cudaLibraryLoadData", unsafe, [&](Lock&, Call&) {
    if (!library || !code) return cudaErrorInvalidValue;
    auto entry = std::make_unique<ModuleEntry>();
    Wrapper wrapper;
    std::memcpy(&wrapper, code, sizeof wrapper);
    find_ptx(wrapper.magic == wrapper_magic ? wrapper.data : code, *entry);
    if (!entry->ptx.empty()) entry->ptx = *new std::string(entry->ptx);
    if (cudaError_t error = load_module(*entry); error != cudaSuccess) return error;
    for (const std::string& name : entry->module->kernel_names()) {
      auto* kernel = new KernelHandle;
      kernel->module = entry.get();
      kernel->name = name;
      kernel->pretty = demangle(name);
      entry->kernels.push_back(kernel);
    }
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    for (KernelHandle* kernel : entry->kernels) r.kernels[kernel] = kernel;
    r.modules.push_back(std::move(entry));
    *library = reinterpret_cast<cudaLibrary_t>(r.modules.back().get());
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return api("cudaLibraryUnload", unsafe, [&](Lock&, Call&) {
    if (!library) return cudaErrorInvalidResourceHandle;
    reinterpret_cast<ModuleEntry*>(library)->unloaded = true;
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return api("cudaLibraryGetKernel", plain, [&](Lock&, Call&) {
    if (!kernel || !library || !name) return cudaErrorInvalidValue;
    for (KernelHandle* known : reinterpret_cast<ModuleEntry*>(library)->kernels)
      if (known->name == name) {
        *kernel = reinterpret_cast<cudaKernel_t>(known);
        return cudaSuccess;
      }
    return cudaErrorSymbolNotFound;
  });
}

cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return api("cudaLibraryGetKernelCount", plain, [&](Lock&, Call&) {
    if (!count || !library) return cudaErrorInvalidValue;
    *count = static_cast<unsigned>(reinterpret_cast<ModuleEntry*>(library)->kernels.size());
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name) {
  return api("cudaLibraryGetGlobal", plain, [&](Lock&, Call&) {
    if (!library || !name) return cudaErrorInvalidValue;
    auto* entry = reinterpret_cast<ModuleEntry*>(library);
    for (const vgpu::Variable& variable : entry->module->variables())
      if (variable.name == name) {
        if (bytes) *bytes = variable.bytes;
        if (pointer)
          *pointer = reinterpret_cast<void*>(variable_address(*entry, thread_state().device, name));
        return cudaSuccess;
      }
    return cudaErrorSymbolNotFound;
  });
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return api("cudaGetSymbolAddress", plain, [&](Lock&, Call&) {
    VariableHandle* variable = find_variable(symbol);
    if (!variable) return cudaErrorInvalidSymbol;
    if (!pointer) return cudaErrorInvalidValue;
    *pointer =
        reinterpret_cast<void*>(variable_address(*variable->module, thread_state().device, variable->name));
    return *pointer ? cudaSuccess : cudaErrorInvalidSymbol;
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return api("cudaGetSymbolSize", plain, [&](Lock&, Call&) {
    VariableHandle* variable = find_variable(symbol);
    if (!variable) return cudaErrorInvalidSymbol;
    if (!bytes) return cudaErrorInvalidValue;
    *bytes = variable->bytes;
    return cudaSuccess;
  });
}
}

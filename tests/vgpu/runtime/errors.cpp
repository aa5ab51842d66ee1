// Errors: their names and texts, a thread's last one.
#include <cstring>
#include <utility>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

struct ErrorEntry {
  cudaError_t value;
  const char* name;
  const char* text;
};
const ErrorEntry error_table[] = {
#define VGPU_ERROR(name, text) {name, #name, text},
#include "runtime/errors.inc"
#undef VGPU_ERROR
};

}  // namespace

cudaError_t error_by_name(const std::string& name, cudaError_t fallback) {
  for (const ErrorEntry& entry : error_table)
    if (name == entry.name) return entry.value;
  if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
    return static_cast<cudaError_t>(std::atoi(name.c_str()));
  report("VGPU_FAIL: there is no error called " + name);
  return fallback;
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  for (const ErrorEntry& entry : error_table)
    if (entry.value == error) return entry.name;
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const ErrorEntry& entry : error_table)
    if (entry.value == error) return entry.text;
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  ThreadState& thread = thread_state();
  Machine& m = machine();
  if (!m.devices.empty() && m.devices[thread.device]->sticky != cudaSuccess)
    return m.devices[thread.device]->sticky;
  return std::exchange(thread.last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  ThreadState& thread = thread_state();
  Machine& m = machine();
  if (!m.devices.empty() && m.devices[thread.device]->sticky != cudaSuccess)
    return m.devices[thread.device]->sticky;
  return thread.last_error;
}

int vgpu_unsupported(const char* name) {
  report(std::string(name) + " is not supported by vgpu");
  thread_state().last_error = cudaErrorNotSupported;
  return cudaErrorNotSupported;
}
}

// Memory and its registration, which change nothing here.
#include "nccl/checks.hpp"
#include "nccl/group.hpp"

using namespace vgpu::nccl;

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return api("ncclMemAlloc", [&](std::string&) -> ncclResult_t {
    if (!pointer) return ncclInvalidArgument;
    return cudaMalloc(pointer, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  });
}
ncclResult_t ncclMemFree(void* pointer) {
  return api("ncclMemFree", [&](std::string&) -> ncclResult_t {
    return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return api("ncclCommRegister", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommRegister", comm); result != ncclSuccess) return result;
    if (ncclResult_t result = check_buffer("ncclCommRegister", comm, "buffer", buffer, bytes);
        result != ncclSuccess)
      return result;
    if (handle) *handle = buffer;
    return ncclSuccess;
  });
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return check("ncclCommDeregister", comm, Needs::communicator);
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int) {
  return api("ncclCommWindowRegister", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommWindowRegister", comm); result != ncclSuccess) return result;
    if (ncclResult_t result = check_buffer("ncclCommWindowRegister", comm, "buffer", buffer, bytes);
        result != ncclSuccess)
      return result;
    if (window) *window = reinterpret_cast<ncclWindow_t>(buffer);
    return ncclSuccess;
  });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  return check("ncclCommWindowDeregister", comm, Needs::communicator);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void ncclResetDebugInit() {}
void pncclResetDebugInit() {}
#pragma GCC diagnostic pop

VGPU_ALIAS(ncclMemAlloc)
VGPU_ALIAS(ncclMemFree)
VGPU_ALIAS(ncclCommRegister)
VGPU_ALIAS(ncclCommDeregister)
VGPU_ALIAS(ncclCommWindowRegister)
VGPU_ALIAS(ncclCommWindowDeregister)
}

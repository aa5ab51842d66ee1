// The registration of buffers, which changes nothing here.
#include "nccl/checks.hpp"
#include "nccl/group.hpp"

using namespace vgpu::nccl;

extern "C" {

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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void ncclResetDebugInit() {}
void pncclResetDebugInit() {}
#pragma GCC diagnostic pop

VGPU_ALIAS(ncclCommRegister)
VGPU_ALIAS(ncclCommDeregister)
}

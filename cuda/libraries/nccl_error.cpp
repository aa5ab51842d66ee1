#include "libraries/nccl_error.hpp"

#include <string>

#include <cuda_runtime_api.h>

#include "detail/expects.hpp"
#include "libraries/nccl_library.hpp"

namespace lockstep::cuda {

void throw_nccl_error(ncclResult_t code, const char* call, const SourceLocation& location,
                      ncclComm_t communicator, const Device& device, std::string_view operation) {
  cudaGetLastError();  // NCCL leaves the CUDA runtime's error pending
  ErrorContext context;
  context.operation = operation;
  context.device = device.to_string();
  context.code = code;
  context.location = location;
  context.hint = "NCCL_DEBUG=INFO makes NCCL say more.";
  if (code == ncclSystemError)
    context.hint +=
        " GPUs without peer access meet in /dev/shm, in which containers have little room: docker run "
        "--shm-size=1g gives more.";
  const char* const last_words = ncclGetLastError(communicator);
  const std::string message = lockstep::detail::concat(
      operation, " on ", device, ": ", call, " failed with ", ncclGetErrorString(code), " (",
      static_cast<int>(code), ")", last_words != nullptr && *last_words != '\0' ? ", " : "",
      last_words != nullptr ? last_words : "", ". ", context.hint);
  throw CollectiveError(message, lockstep::detail::complete(std::move(context), message));
}

NcclGroup::NcclGroup(const Device& device, std::string_view operation)
    : device_(device), operation_(operation) {
  LOCKSTEP_NCCL_CHECK(ncclGroupStart(), nullptr, device, operation);
}

NcclGroup::~NcclGroup() {
  if (open_) ncclGroupEnd();
}

bool NcclGroup::end() {
  open_ = false;
  const ncclResult_t code = ncclGroupEnd();
  if (code != ncclSuccess && code != ncclInProgress)
    throw_nccl_error(code, "ncclGroupEnd()", {__FILE__, __LINE__, __func__}, nullptr, device_, operation_);
  return code == ncclInProgress;
}

}  // namespace lockstep::cuda

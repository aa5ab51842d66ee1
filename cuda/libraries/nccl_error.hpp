#pragma once

#include <string_view>

#include <nccl.h>

#include <lockstep/device.hpp>
#include <lockstep/error.hpp>

namespace lockstep::cuda {

/// Throws CollectiveError: what was attempted, on which device, the call, the code, its meaning and NCCL's
/// own last words.
/// @param communicator  may be null.
[[noreturn]] void throw_nccl_error(ncclResult_t code, const char* call, const SourceLocation& location,
                                   ncclComm_t communicator, const Device& device, std::string_view operation);

/// Several NCCL calls of one thread that start together: without a group the first would wait for the others
/// for ever. Nothing is enqueued before end().
class [[nodiscard]] NcclGroup {
 public:
  /// @param device  the first rank's, for messages.
  NcclGroup(const Device& device, std::string_view operation);
  /// Closes the group after an error, so that the thread's next one is not inside it.
  ~NcclGroup();
  /// Enqueues the calls. @return whether those of nonblocking communicators are still in progress.
  bool end();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

 private:
  const Device& device_;
  const std::string_view operation_;
  bool open_ = true;
};

/// Calls `call(item)`, which calls NCCL, for each item until one fails.
template <class Items, class Call>
ncclResult_t for_each(const Items& items, const Call& call) {
  for (const auto& item : items) {
    if (const ncclResult_t result = call(item); result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

}  // namespace lockstep::cuda

#define LOCKSTEP_NCCL_CHECK(call, communicator, device, operation)                             \
  do {                                                                                         \
    if (const ncclResult_t lockstep_code = (call); lockstep_code != ncclSuccess) [[unlikely]]  \
      ::lockstep::cuda::throw_nccl_error(lockstep_code, #call, {__FILE__, __LINE__, __func__}, \
                                         (communicator), (device), (operation));               \
  } while (false)

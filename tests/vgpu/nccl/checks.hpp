// What calls refuse.
#pragma once

#include "nccl/communicator.hpp"

namespace vgpu::nccl {

// What a call needs of its communicator: that it exists; that none of its calls is in progress; that it is
// neither finalized nor revoked and has no error, too.
enum class Needs { communicator, ready, usable };
ncclResult_t check(const char* name, ncclComm* comm, Needs needs = Needs::usable);
ncclResult_t check_buffer(const char* name, ncclComm* comm, const char* which, const void* pointer,
                          std::size_t bytes);
// `..._at`: where in the larger buffer the smaller one lies for an operation in place, or npos when there is
// no such form.
ncclResult_t check_overlap(const char* name, ncclComm* comm, const void* send, std::size_t send_bytes,
                           const void* receive, std::size_t receive_bytes, std::size_t send_at,
                           std::size_t receive_at, bool in_place_allowed);
ncclResult_t check_stream(const char* name, ncclComm* comm, cudaStream_t stream);

}  // namespace vgpu::nccl

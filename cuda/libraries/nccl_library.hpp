#pragma once

#include <string>

#include <nccl.h>

#include "libraries/loaded_library.hpp"

/// NCCL's functions, under their names: the library is loaded at the first call.
namespace lockstep::cuda {

/// The oldest NCCL that is supported, as NCCL_VERSION_CODE counts. Before 2.24 NCCL's kernels write directly
/// into other ranks' buffers of the same process, and cannot reach those of memory pools.
inline constexpr int kOldestNccl = 22400;

/// "2.28.9", of NCCL_VERSION_CODE.
std::string version_text(int code);

/// The version of the NCCL that is loaded, as NCCL_VERSION_CODE counts; 0: it does not tell.
int loaded_nccl_version();

/// Checks the version of the NCCL that was loaded. Logs where it is older than the headers that the library
/// was built with.
/// @param file  where it was loaded from.
/// @throws Unsupported  it is older than kOldestNccl, or of another major version than the headers.
void require_nccl_version(int loaded, const std::string& file);

/// Checks that the program's own communicators can be used: only the NCCL that made a communicator can use
/// it, and a communicator does not tell which one did.
/// @throws Unsupported  the process has several NCCLs, of several versions.
void require_one_nccl_version(const char* operation);

extern constinit LoadedLibrary nccl_library;

LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclAllGather);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclAllReduce);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclBroadcast);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommAbort);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommCount);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommCuDevice);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommDestroy);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommGetAsyncError);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommInitRank);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommInitRankConfig);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommRevoke);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommWindowDeregister);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommWindowRegister);
#endif
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclCommUserRank);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclGetErrorString);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclGetLastError);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclGetUniqueId);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclGetVersion);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclGroupEnd);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclGroupStart);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclMemAlloc);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclMemFree);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclRecv);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclReduce);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclReduceScatter);
LOCKSTEP_LOADED_FUNCTION(nccl_library, ncclSend);

}  // namespace lockstep::cuda

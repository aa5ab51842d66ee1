// Memory of NCCL's allocator, and windows: memory that all ranks of a communicator register together.
#include <algorithm>

#include "nccl/checks.hpp"
#include "nccl/group.hpp"

namespace vgpu::nccl {
namespace {

// What ncclMemAlloc has given out, by address; guarded by the runtime's lock.
std::map<const char*, std::size_t>& allocations() {
  static auto* const all = new std::map<const char*, std::size_t>;  // outlives static objects
  return *all;
}

std::string name_of(const ncclComm& comm, std::size_t number) {
  return format("window %zu of %s", number, comm.name().c_str());
}

std::string message_file(std::size_t number, int rank) { return format("window%zu.%d", number, rank); }

// Reads what the ranks of other processes have said. Says which ranks have yet to call.
std::vector<int> missing_ranks(Clique& clique, std::size_t number) {
  WindowState& state = clique.windows[number];
  std::vector<int> missing;
  for (int rank = 0; rank < clique.ranks; ++rank) {
    std::string& posted = state.posted[rank];
    std::vector<char> none;
    if (posted.empty() &&
        (!clique.away(rank) || !clique.shared->fetch(message_file(number, rank), posted, none)))
      missing.push_back(rank);
  }
  return missing;
}

// Whether all ranks have called, or the window will never be; with the lock held.
bool is_decided(Clique& clique, std::size_t number) {
  WindowState& state = clique.windows[number];
  if (!state.error.empty()) return true;
  const std::vector<int> missing = missing_ranks(clique, number);
  look_for_lost(clique);
  for (int rank : missing) {
    if (!(clique.shared && clique.lost[rank]) && !has_aborted(clique, rank)) continue;
    state.error = format("rank %d has aborted, or its process has ended", rank);
    state.result = ncclRemoteError;
    return true;
  }
  if (!missing.empty()) return false;
  for (int rank = 1; rank < clique.ranks; ++rank)
    if (state.posted[rank] != state.posted[0] && state.error.empty())
      state.error = format("rank 0 registers %s, and rank %d %s", state.posted[0].c_str(), rank,
                           state.posted[rank].c_str());
  return true;
}

// With the lock held; null: nothing.
const char* what_is_wrong(const ncclComm& comm, const char* data, std::size_t bytes) {
  const auto after = allocations().upper_bound(data);
  const auto memory = after == allocations().begin() ? allocations().end() : std::prev(after);
  if (memory == allocations().end() || data + bytes > memory->first + memory->second)
    return "the buffer is not ncclMemAlloc's";
  if ((data - memory->first) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
    return "the buffer does not begin at a multiple of NCCL_WIN_REQUIRED_ALIGNMENT";
  const bool is_registered = std::any_of(comm.windows.begin(), comm.windows.end(), [&](const Window& window) {
    return window.live && data < window.data + window.bytes && window.data < data + bytes;
  });
  return is_registered ? "the buffer is registered already" : nullptr;
}

ncclResult_t check_memory(ncclComm* comm, const char* data, std::size_t bytes) {
  const char* const call = "ncclCommWindowRegister";
  if (ncclResult_t result = check_buffer(call, comm, "buffer", data, bytes); result != ncclSuccess)
    return result;
  const char* wrong = nullptr;
  {
    Guard guard;
    wrong = what_is_wrong(*comm, data, bytes);
  }
  return wrong == nullptr ? ncclSuccess : fail(comm, ncclInvalidArgument, format("%s: %s", call, wrong));
}

ncclResult_t register_window(ncclComm* comm, char* data, std::size_t bytes, ncclWindow_t* out, int flags) {
  std::shared_ptr<Clique> clique = comm->clique;
  std::size_t number = 0;
  {
    Guard guard;
    number = comm->windows.size();
    comm->windows.push_back({data, bytes, (flags & NCCL_WIN_COLL_SYMMETRIC) != 0, false});
    WindowState& state = clique->windows[number];
    state.posted.resize(clique->ranks);
    state.posted[comm->rank] = format("%zu bytes with flags %d", bytes, flags);
    if (clique->remote)
      clique->shared->publish(message_file(number, comm->rank), state.posted[comm->rank], nullptr, 0);
    runtime().notify();
  }
  Pending pending;
  pending.comm = comm;
  pending.what = format("ncclCommWindowRegister on %s", comm->name().c_str());
  pending.blocking = comm->blocking;
  pending.done = [clique, comm, number] { return comm->aborted || is_decided(*clique, number); };
  pending.missing = [clique, number] {
    return "not called by ranks " + ranks_text(missing_ranks(*clique, number));
  };
  pending.finish = [clique, comm, number, out] {
    std::string error;
    ncclResult_t result = ncclSuccess;
    {
      Guard guard;
      const WindowState& state = clique->windows[number];
      error = comm->aborted ? "the communicator was aborted" : state.error;
      result = comm->aborted ? ncclInternalError : state.result;
      comm->windows[number].live = error.empty();
    }
    if (!error.empty()) return fail(nullptr, result, "ncclCommWindowRegister: " + error);
    *out = reinterpret_cast<ncclWindow_t>(number + 1);
    return ncclSuccess;
  };
  pending.cancel = [clique, number] {
    Guard guard;
    WindowState& state = clique->windows[number];
    if (state.error.empty()) state.error = "it was given up";
    runtime().notify();
  };
  if (group.depth > 0) {
    group.pending.push_back(pending);
    return ncclSuccess;
  }
  std::vector<Pending> one{pending};
  return wait_all(one);
}

// The number of the live window that has the address; with the lock held.
std::size_t find_window(const ncclComm& comm, const void* buffer) {
  const auto* const data = static_cast<const char*>(buffer);
  const auto found = std::find_if(comm.windows.begin(), comm.windows.end(), [&](const Window& window) {
    return window.live && window.data <= data && data < window.data + window.bytes;
  });
  return static_cast<std::size_t>(found - comm.windows.begin());
}

}  // namespace

std::string place_in_window(const ncclComm& comm, const void* buffer, std::size_t bytes) {
  Guard guard;
  const std::size_t number = find_window(comm, buffer);
  if (number == comm.windows.size() || !comm.windows[number].symmetric) return {};
  const Window& window = comm.windows[number];
  const auto at = static_cast<std::size_t>(static_cast<const char*>(buffer) - window.data);
  return format(", %s window %zu at %zu", at + bytes > window.bytes ? "beyond" : "in", number, at);
}

std::string live_window(const ncclComm& comm) {
  Guard guard;
  for (std::size_t number = 0; number < comm.windows.size(); ++number)
    if (comm.windows[number].live) return name_of(comm, number);
  return {};
}

}  // namespace vgpu::nccl

using namespace vgpu::nccl;

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return api("ncclMemAlloc", [&](std::string&) -> ncclResult_t {
    if (!pointer) return ncclInvalidArgument;
    if (cudaMalloc(pointer, bytes) != cudaSuccess) return ncclUnhandledCudaError;
    Guard guard;
    allocations()[static_cast<const char*>(*pointer)] = bytes;
    return ncclSuccess;
  });
}
ncclResult_t ncclMemFree(void* pointer) {
  return api("ncclMemFree", [&](std::string&) -> ncclResult_t {
    {
      Guard guard;
      allocations().erase(static_cast<const char*>(pointer));
    }
    return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window,
                                    int flags) {
  return api("ncclCommWindowRegister", [&](std::string& info) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommWindowRegister", comm); result != ncclSuccess) return result;
    if (!window || bytes == 0) return fail(comm, ncclInvalidArgument, "ncclCommWindowRegister: bad argument");
    info = format("%zu bytes, flags %d, %s", bytes, flags, comm->name().c_str());
    if (ncclResult_t result = check_memory(comm, static_cast<const char*>(buffer), bytes);
        result != ncclSuccess)
      return result;
    *window = nullptr;
    return register_window(comm, static_cast<char*>(buffer), bytes, window, flags);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return api("ncclCommWindowDeregister", [&](std::string&) -> ncclResult_t {
    const char* const call = "ncclCommWindowDeregister";
    if (ncclResult_t result = check(call, comm, Needs::communicator); result != ncclSuccess) return result;
    const std::size_t number = reinterpret_cast<std::size_t>(window) - 1;
    if (number >= comm->windows.size() || !comm->windows[number].live)
      return fail(comm, ncclInvalidArgument,
                  format("%s: it is no window of %s, or no longer one", call, comm->name().c_str()));
    bool is_idle = true;
    {
      Guard guard;
      is_idle = std::all_of(comm->pending.begin(), comm->pending.end(), op_finished);
      if (is_idle) comm->windows[number].live = false;
    }
    if (is_idle) return ncclSuccess;
    return fail(comm, ncclInvalidUsage,
                format("%s: operations of %s are under way", call, comm->name().c_str()));
  });
}

VGPU_ALIAS(ncclMemAlloc)
VGPU_ALIAS(ncclMemFree)
VGPU_ALIAS(ncclCommWindowRegister)
VGPU_ALIAS(ncclCommWindowDeregister)
}

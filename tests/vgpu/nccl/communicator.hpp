// Communicators and what their operations share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nccl.h>

#include "nccl/arithmetic.hpp"
#include "nccl/processes.hpp"
#include "runtime/runtime.hpp"

namespace vgpu::nccl {

using rt::CustomWork;
using rt::Op;
using rt::PointerInfo;
using rt::RunContext;
using rt::Runtime;
using rt::StreamInfo;
using rt::Unit;

Runtime& runtime();
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// Holds the runtime's lock.
struct Guard {
  Guard() { runtime().lock(); }
  ~Guard() { runtime().unlock(); }
  Guard(const Guard&) = delete;
};

const char* result_name(ncclResult_t result);
int result_by_name(const std::string& name);
const char* type_name(int type);

enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter };

const char* kind_name(Kind kind);

struct Signature {
  Kind kind = Kind::all_reduce;
  std::size_t count = 0;
  int type = ncclFloat32;
  int op = -1;  // pre-multiplied sums count as one operation
  int root = -1;
  std::string places;  // in symmetric windows
  bool operator==(const Signature&) const = default;
  std::string text() const {
    std::string result = format("%s(count=%zu, %s", kind_name(kind), count, type_name(type));
    if (op >= 0) {
      static const char* const names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
      result += std::string(", ") + names[std::min(op, 5)];
    }
    if (root >= 0) result += format(", root=%d", root);
    result += places;
    return result + ")";
  }
};

struct RedOp {
  int type = 0;
  bool on_device = false;
  const void* device_scalar = nullptr;
  unsigned char scalar[8] = {};
  bool destroyed = false;
};

struct Clique;
class CollectiveUnit;
class PairUnit;

// A rank's memory that all ranks have registered together.
struct Window {
  const char* data = nullptr;
  std::size_t bytes = 0;
  bool symmetric = false, live = false;
};

// What waits for other ranks: initialisations, splits, windows, the end of operations.
struct Pending {
  ncclComm* comm = nullptr;  // where it is kept if the communicator does not block
  std::string what;
  std::function<bool()> done;            // with the lock held
  std::function<ncclResult_t()> finish;  // after it
  std::function<std::string()> missing;
  std::function<void()> cancel = [] {};     // after a failure
  ncclResult_t overdue = ncclInvalidUsage;  // when it would last for ever
  bool blocking = true;
};

}  // namespace vgpu::nccl

struct ncclComm {
  static constexpr std::uint64_t alive = 0x76677075636F6D6Dull;
  std::uint64_t magic = alive;
  std::shared_ptr<vgpu::nccl::Clique> clique;
  int rank = 0, device = 0;
  std::uint64_t thread = 0;
  bool blocking = true, ready = false, finalized = false, aborted = false;
  ncclResult_t async = ncclSuccess;
  std::string last_error;
  std::vector<std::shared_ptr<vgpu::rt::Op>> pending;
  std::vector<vgpu::nccl::RedOp> redops;
  std::vector<vgpu::nccl::Window> windows;      // in the order in which they were registered
  std::map<std::string, int> splits;            // how often it has been split or shrunk in which way
  std::vector<vgpu::nccl::Pending> unfinished;  // calls of a communicator that does not block
  // What a communicator that does not block has yet to put on its streams: it is there when somebody has
  // asked twice. Guarded by the runtime's lock, as another thread may abort.
  std::function<ncclResult_t()> in_progress;
  bool was_asked = false;
  std::string name() const;
};

namespace vgpu::nccl {

// A communicator being made of another one.
struct SplitState {
  struct Entry {
    int color = 0, key = 0, device = 0;
    bool posted = false;
    ncclComm *parent = nullptr, *child = nullptr;  // of ranks of this process
  };
  std::vector<Entry> entries;  // by rank
  std::vector<bool> expected;
  bool done = false;
  std::string error;
  ncclResult_t result = ncclInvalidUsage;  // of the error
};

// A window that ranks are registering.
struct WindowState {
  std::vector<std::string> posted;  // by rank: what it registers; empty: it has yet to call
  std::string error;
  ncclResult_t result = ncclInvalidUsage;  // of the error
};

// The ranks of one communicator.
struct Clique {
  std::uint64_t id = 0;
  int ranks = 0, joined = 0;
  std::vector<ncclComm*> members;
  std::vector<std::uint64_t> sequence;  // next collective of each rank
  std::map<std::uint64_t, std::shared_ptr<CollectiveUnit>> open;
  struct Channel {
    std::vector<std::shared_ptr<PairUnit>> sends, receives;  // waiting for their other half
  };
  std::map<std::pair<int, int>, Channel> channels;
  std::map<std::string, SplitState> splits;
  std::map<std::size_t, WindowState> windows;  // by number
  std::string error;
  ncclResult_t result = ncclInvalidUsage;  // of the error
  // With ranks in other processes:
  std::shared_ptr<SharedClique> shared;
  bool remote = false, completed = false;
  bool external = false;  // whether waits are patient because of it
  int local = 0;          // ranks in this process that are not destroyed
  std::vector<bool> lost;
  std::map<std::pair<int, int>, std::uint64_t>
      messages;               // numbers point-to-point messages with other processes
  std::uint64_t cleaned = 0;  // collectives whose files are removed
  // Streams may run a communicator's collectives in another order than they were called in.
  std::uint64_t finished = 0;              // the first that this process has not completed
  std::set<std::uint64_t> finished_early;  // those behind it that it has
  bool complete() const { return joined == ranks; }
  bool away(int rank) const { return remote && !members[rank]; }
};

std::shared_ptr<Clique> make_clique(int ranks);
// Adds a rank, with the lock held. Says what is wrong, or nothing.
std::string join_clique(const std::shared_ptr<Clique>& clique, ncclComm* comm);
// Gives the clique a file to share with other processes. Says whether it could; with the lock held.
bool share_clique(Clique& clique, const std::string& key);
// Whether all ranks are there, in this process or in others; with the lock held.
bool all_here(Clique& clique);
// A rank of this process leaves; with the lock held.
void leave_clique(Clique& clique, int rank, SharedClique::State how);
// Looks whether ranks' processes have ended without destroying their communicators: every use of the
// communicator is an ncclRemoteError from then on. Says whether any have; with the lock held.
bool look_for_lost(Clique& clique);
// Whether the rank has aborted or revoked the communicator; with the lock held.
bool has_aborted(const Clique& clique, int rank);
// All ranks of this process have the error; with the lock held.
void set_async(Clique& clique, ncclResult_t error);
// Lets the leak report know of a communicator.
void announce(ncclComm* comm);

// Reports the failure, and keeps its text for ncclGetLastError.
ncclResult_t fail(ncclComm* comm, ncclResult_t result, const std::string& text);

// Where in the rank's symmetric windows a buffer lies: empty if in none.
std::string place_in_window(const ncclComm& comm, const void* buffer, std::size_t bytes);
// Says which window is still registered, or nothing.
std::string live_window(const ncclComm& comm);

// What a rank's stream is given.
class RankWork : public CustomWork {
 public:
  ncclComm* comm = nullptr;
};

// How an NCCL call puts work on a stream; a graph's launch does not.
struct DirectCall {
  bool active = false;
  bool grouped = false;
};
extern thread_local DirectCall direct_call;

// VGPU_ALLOW_UNGROUPED
bool allow_ungrouped();
std::string ranks_text(const std::vector<int>& ranks);
bool op_finished(const std::shared_ptr<Op>& op);
// Keeps the operation among the communicator's pending ones.
void remember(ncclComm& comm, const std::shared_ptr<Op>& op);
// Ends them where they are; with the lock held.
void cancel_operations(ncclComm& comm);

}  // namespace vgpu::nccl

// Every function has a second name, for profilers.
#define VGPU_ALIAS(name) extern __typeof(name) p##name __attribute__((alias(#name)));

// NCCL between processes. processes.sh starts them, a rank in each; what one process does is a test case.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <nccl.h>

#include "check.hpp"

#define NCCL(call) EXPECT(call, ncclSuccess)

namespace {

constexpr std::size_t count = 100;

int number(const char* variable) { return std::atoi(std::getenv(variable)); }

// This process among those of processes.sh. They meet by files.
const int process = std::getenv("VGPU_TEST_PROCESS") ? number("VGPU_TEST_PROCESS") : 0;
const int processes = std::getenv("VGPU_TEST_PROCESSES") ? number("VGPU_TEST_PROCESSES") : 1;

std::vector<int> everybody() {
  std::vector<int> all(processes);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string path(const std::string& name) { return std::getenv("VGPU_TEST_FOLDER") + ("/" + name); }

void await(const std::string& name) {
  while (!std::filesystem::exists(path(name))) std::this_thread::yield();
}

void tell(const std::string& name, const void* data = nullptr, std::size_t bytes = 0) {
  std::ofstream(path(name + ".part"), std::ios::binary).write(static_cast<const char*>(data), bytes);
  std::filesystem::rename(path(name + ".part"), path(name));
}

// Waits until all, or these, have come here.
void meet(const std::string& name, std::vector<int> who = {}) {
  tell(name + "." + std::to_string(process));
  if (who.empty()) who = everybody();
  for (int other : who) await(name + "." + std::to_string(other));
}

ncclUniqueId share_id(const std::string& name = "id") {
  ncclUniqueId id;
  if (process == 0) {
    NCCL(ncclGetUniqueId(&id));
    tell(name, id.internal, sizeof id.internal);
  } else {
    await(name);
    std::ifstream(path(name), std::ios::binary).read(id.internal, sizeof id.internal);
  }
  return id;
}

ncclResult_t state(ncclComm_t comm) {
  ncclResult_t error = ncclSuccess;
  NCCL(ncclCommGetAsyncError(comm, &error));
  return error;
}

// Until the communicator is in another state.
ncclResult_t leave(ncclComm_t comm, ncclResult_t old) {
  ncclResult_t now = old;
  while ((now = state(comm)) == old) std::this_thread::yield();
  return now;
}

int rank_of(ncclComm_t comm) {
  int rank = -1;
  NCCL(ncclCommUserRank(comm, &rank));
  return rank;
}
int ranks_of(ncclComm_t comm) {
  int ranks = -1;
  NCCL(ncclCommCount(comm, &ranks));
  return ranks;
}

// A device with a stream and two arrays, room for `count` values of each rank in them.
template <class T = float>
struct Place {
  cudaStream_t stream = nullptr;
  T *a = nullptr, *b = nullptr;
  Place() {
    OK(cudaSetDevice(process));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&a, bytes()));
    OK(cudaMalloc(&b, bytes()));
  }
  ~Place() {
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaStreamDestroy(stream));
  }
  static std::size_t bytes() { return count * processes * sizeof(T); }
  // Element i of block k has 1000 process + 100 k + i % 7.
  void fill() {
    std::vector<T> host(count * processes);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = value(process, i / count, i % count);
    OK(cudaMemcpyAsync(a, host.data(), bytes(), cudaMemcpyHostToDevice, stream));
    OK(cudaMemsetAsync(b, 0, bytes(), stream));
    OK(cudaStreamSynchronize(stream));
  }
  static T value(int rank, std::size_t block, std::size_t i) {
    return static_cast<T>(1000 * rank + 100 * static_cast<int>(block) + static_cast<int>(i % 7));
  }
  std::vector<T> result() {
    OK(cudaStreamSynchronize(stream));
    return fetch(b, count * processes);
  }
  // The result's block has what `expected` says.
  template <class Expected>
  void is(std::size_t block, Expected expected) {
    const std::vector<T> got = result();
    bool same = true;
    for (std::size_t i = 0; i < count; ++i) same = same && got[block * count + i] == expected(i);
    CHECK(same);
  }
  T sum(std::size_t block, std::size_t i) const {
    T total = 0;
    for (int rank = 0; rank < processes; ++rank) total += value(rank, block, i);
    return total;
  }
};

ncclComm_t connect(const std::string& name = "id") {
  const ncclUniqueId id = share_id(name);
  OK(cudaSetDevice(process));
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, processes, id, process));
  CHECK((rank_of(comm) == process && ranks_of(comm) == processes));
  return comm;
}

// The ranks of the communicator are the processes' that `members` lists.
void check_sum(ncclComm_t comm, Place<>& at, const std::vector<int>& members) {
  at.fill();
  const ncclResult_t result = ncclAllReduce(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream);
  if (result == ncclInProgress)
    CHECK(leave(comm, ncclInProgress) == ncclSuccess);
  else
    NCCL(result);
  at.is(0, [&](std::size_t i) {
    float total = 0;
    for (int member : members) total += at.value(member, 0, i);
    return total;
  });
}

[[noreturn]] void die() {
  std::raise(SIGKILL);
  std::abort();
}

}  // namespace

TEST_CASE("processes: every collective", "[.]") {
  const ncclComm_t comm = connect();
  const int last = processes - 1;
  Place<> at;
  at.fill();
  NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream));
  at.is(0, [&](std::size_t i) { return at.sum(0, i); });
  NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclMax, comm, at.stream));
  at.is(0, [&](std::size_t i) { return at.value(last, 0, i); });
  NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclMin, comm, at.stream));
  at.is(0, [&](std::size_t i) { return at.value(0, 0, i); });
  NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclAvg, comm, at.stream));
  at.is(0, [&](std::size_t i) { return at.sum(0, i) / static_cast<float>(processes); });
  at.fill();
  NCCL(ncclReduce(at.a, at.b, count, ncclFloat, ncclSum, last, comm, at.stream));
  at.is(0, [&](std::size_t i) { return process == last ? at.sum(0, i) : 0; });
  NCCL(ncclBroadcast(at.a, at.b, count, ncclFloat, 1, comm, at.stream));
  at.is(0, [&](std::size_t i) { return at.value(1, 0, i); });
  NCCL(ncclAllGather(at.a, at.b, count, ncclFloat, comm, at.stream));
  for (int rank = 0; rank < processes; ++rank)
    at.is(rank, [&](std::size_t i) { return at.value(rank, 0, i); });
  NCCL(ncclReduceScatter(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream));
  at.is(0, [&](std::size_t i) { return at.sum(process, i); });
  NCCL(ncclAlltoAll(at.a, at.b, count, ncclFloat, comm, at.stream));
  for (int rank = 0; rank < processes; ++rank)
    at.is(rank, [&](std::size_t i) { return at.value(rank, process, i); });
  at.fill();
  NCCL(ncclGather(at.a, at.b, count, ncclFloat, last, comm, at.stream));
  for (int rank = 0; rank < processes; ++rank)
    at.is(rank, [&](std::size_t i) { return process == last ? at.value(rank, 0, i) : 0; });
  NCCL(ncclScatter(at.a, at.b, count, ncclFloat, 1, comm, at.stream));
  at.is(0, [&](std::size_t i) { return at.value(1, process, i); });
  NCCL(ncclBcast(at.a, count, ncclFloat, 0, comm, at.stream));
  NCCL(ncclAllGather(at.a, at.b, count, ncclFloat, comm, at.stream));
  at.is(last, [&](std::size_t i) { return at.value(0, 0, i); });
  // Several in a group, and none at all.
  at.fill();
  NCCL(ncclGroupStart());
  NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream));
  NCCL(ncclAllReduce(at.b, at.b, count, ncclFloat, ncclMax, comm, at.stream));
  NCCL(ncclBroadcast(at.b, at.b, 0, ncclFloat, 0, comm, at.stream));
  NCCL(ncclGroupEnd());
  at.is(0, [&](std::size_t i) { return at.sum(0, i); });
  {  // of another type
    Place<int> whole;
    whole.fill();
    NCCL(ncclAllReduce(whole.a, whole.b, count, ncclInt, ncclProd, comm, whole.stream));
    whole.is(0, [&](std::size_t i) {
      int product = 1;
      for (int rank = 0; rank < processes; ++rank) product *= whole.value(rank, 0, i);
      return product;
    });
  }
  NCCL(ncclCommFinalize(comm));
  EXPECT(ncclCommFinalize(comm), ncclInvalidArgument);
  NCCL(ncclCommDestroy(comm));
}

// Each process runs the streams' collectives in an order of its own.
TEST_CASE("processes: collectives on two streams", "[.]") {
  const ncclComm_t comm = connect();
  {
    Place<> first;
    Place<int> second;
    first.fill();
    second.fill();
    for (int round = 0; round < 50; ++round) {
      NCCL(ncclAllReduce(first.a, first.b, count, ncclFloat, ncclSum, comm, first.stream));
      NCCL(ncclAllReduce(second.a, second.b, count, ncclInt, ncclMax, comm, second.stream));
    }
    first.is(0, [&](std::size_t i) { return first.sum(0, i); });
    second.is(0, [&](std::size_t i) { return second.value(processes - 1, 0, i); });
  }
  NCCL(ncclCommDestroy(comm));
}

TEST_CASE("processes: sends and operators of the user's", "[.]") {
  const ncclComm_t comm = connect();
  const int next = (process + 1) % processes, before = (process + processes - 1) % processes;
  Place<> at;
  at.fill();
  for (int round = 0; round < 3; ++round) {
    NCCL(ncclGroupStart());
    NCCL(ncclSend(at.a + round * count, count, ncclFloat, next, comm, at.stream));
    NCCL(ncclRecv(at.b + round * count, count, ncclFloat, before, comm, at.stream));
    NCCL(ncclGroupEnd());
  }
  for (int round = 0; round < 3; ++round)
    at.is(round, [&](std::size_t i) { return at.value(before, round, i); });
  // Each rank multiplies by a number of its own, from the host or from its device.
  const auto weighted = [&](std::size_t i) {
    float total = 0;
    for (int rank = 0; rank < processes; ++rank) total += static_cast<float>(rank + 1) * at.value(rank, 0, i);
    return total;
  };
  float weight = static_cast<float>(process + 1);
  float* on_device = upload(std::vector<float>{weight});
  for (bool host : {true, false}) {
    ncclRedOp_t op;
    NCCL(ncclRedOpCreatePreMulSum(&op, host ? &weight : on_device, ncclFloat,
                                  host ? ncclScalarHostImmediate : ncclScalarDevice, comm));
    at.fill();
    NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, op, comm, at.stream));
    NCCL(ncclRedOpDestroy(op, comm));
    at.is(0, weighted);
  }
  OK(cudaFree(on_device));
  NCCL(ncclCommDestroy(comm));
}

TEST_CASE("processes: communicators of communicators", "[.]") {
  std::vector<ncclUniqueId> ids{share_id("first"), share_id("second")};
  OK(cudaSetDevice(process));
  ncclComm_t comm = nullptr, part = nullptr, rest = nullptr, none = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT(ncclCommInitRankScalable(&comm, processes, process, 0, ids.data(), &config), ncclInvalidArgument);
  NCCL(ncclCommInitRankScalable(&comm, processes, process, 2, ids.data(), &config));
  Place<> at;
  check_sum(comm, at, everybody());
  // Keys reverse the order; the first process stays out of the second split.
  NCCL(ncclCommSplit(comm, 0, -process, &part, nullptr));
  CHECK((rank_of(part) == processes - 1 - process && ranks_of(part) == processes));
  check_sum(part, at, everybody());
  NCCL(ncclCommSplit(comm, process == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &none, nullptr));
  CHECK((process == 0) == (none == nullptr));
  std::vector<int> others = everybody();
  others.erase(others.begin());
  if (none) check_sum(none, at, others);
  // What is left without process 1, twice; then all can split again.
  int excluded = 1;
  for (int flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT}) {
    if (process == 1) {
      EXPECT(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, flags), ncclInvalidArgument);
      continue;
    }
    NCCL(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, flags));
    std::vector<int> kept = everybody();
    kept.erase(kept.begin() + 1);
    CHECK(ranks_of(rest) == processes - 1);
    check_sum(rest, at, kept);
    NCCL(ncclCommDestroy(rest));
  }
  NCCL(ncclCommSplit(comm, process % 2, 0, &rest, nullptr));
  std::vector<int> mine;
  for (int each : everybody())
    if (each % 2 == process % 2) mine.push_back(each);
  check_sum(rest, at, mine);
  for (ncclComm_t each : {rest, none, part, comm}) NCCL(ncclCommDestroy(each));
}

TEST_CASE("processes: communicators that do not block", "[.]") {
  const ncclUniqueId id = share_id();
  OK(cudaSetDevice(process));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr, part = nullptr;
  if (process == 0) {  // alone for now
    EXPECT(ncclCommInitRankConfig(&comm, processes, id, process, &config), ncclInProgress);
    CHECK(state(comm) == ncclInProgress);
    int ranks = 0;
    EXPECT(ncclCommCount(comm, &ranks), ncclInvalidArgument);
    EXPECT(ncclCommDestroy(comm), ncclInvalidArgument);
    tell("started");
  } else {
    await("started");
    EXPECT(ncclCommInitRankConfig(&comm, processes, id, process, &config), ncclInProgress);
  }
  CHECK(leave(comm, ncclInProgress) == ncclSuccess);
  Place<> at;
  check_sum(comm, at, everybody());
  EXPECT(ncclCommSplit(comm, 0, 0, &part, nullptr), ncclInProgress);
  CHECK(leave(comm, ncclInProgress) == ncclSuccess);
  REQUIRE(part != nullptr);
  check_sum(part, at, everybody());
  EXPECT(ncclCommFinalize(part), ncclInProgress);
  CHECK(leave(part, ncclInProgress) == ncclSuccess);
  NCCL(ncclCommDestroy(part));
  NCCL(ncclCommDestroy(comm));
}

TEST_CASE("processes: calls that do not match", "[.]") {
  const bool odd = process == 1;
  for (int kind = 0; kind < 5; ++kind) {
    ncclComm_t comm = connect("id" + std::to_string(kind));
    int* data = nullptr;
    cudaStream_t stream = nullptr;
    OK(cudaMalloc(&data, 2 * count * sizeof(int)));
    OK(cudaStreamCreate(&stream));
    if (kind == 0)
      NCCL(ncclAllReduce(data, data, odd ? count - 1 : count, ncclInt, ncclSum, comm, stream));
    else if (kind == 1)
      NCCL(ncclAllReduce(data, data, count, odd ? ncclFloat : ncclInt, ncclSum, comm, stream));
    else if (kind == 2)
      NCCL(ncclAllReduce(data, data, count, ncclInt, odd ? ncclMax : ncclSum, comm, stream));
    else if (kind == 3 && odd)
      NCCL(ncclBroadcast(data, data, count, ncclInt, 0, comm, stream));
    else if (kind == 3)
      NCCL(ncclReduce(data, data, count, ncclInt, ncclSum, 0, comm, stream));
    else if (odd)
      NCCL(ncclRecv(data, count + 1, ncclInt, 0, comm, stream));
    else
      NCCL(ncclSend(data, count, ncclInt, 1, comm, stream));
    EXPECT(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
    CHECK(state(comm) == ncclInvalidUsage);
    NCCL(ncclCommAbort(comm));
    OK(cudaDeviceReset());
  }
}

// Process 2 of three is killed while it takes part in a collective.
static void killed_in_a_collective(bool revoke) {
  const ncclComm_t comm = connect();
  Place<> at;
  at.fill();
  NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream));
  meet("called");
  if (process == 2) die();
  CHECK(leave(comm, ncclSuccess) == ncclRemoteError);
  EXPECT(cudaStreamQuery(at.stream), cudaErrorNotReady);
  EXPECT(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream), ncclRemoteError);
  EXPECT(cudaStreamSynchronize(at.stream), cudaErrorLaunchTimeout);  // the message says why
  (void)cudaGetLastError();
  ncclComm_t rest = nullptr, part = nullptr;
  int lost = 2;
  if (revoke) {
    NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    CHECK(state(comm) == ncclSuccess);
    EXPECT(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    EXPECT(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream), ncclInvalidUsage);
    EXPECT(ncclCommSplit(comm, 0, 0, &part, nullptr), ncclRemoteError);
  } else {
    EXPECT(ncclCommShrink(comm, &lost, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT), ncclRemoteError);
  }
  NCCL(ncclCommShrink(comm, &lost, 1, &rest, nullptr, revoke ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT));
  REQUIRE(rest != nullptr);
  OK(cudaStreamSynchronize(at.stream));  // what was on its way has ended
  check_sum(rest, at, {0, 1});
  NCCL(ncclCommAbort(comm));
  check_sum(rest, at, {0, 1});
  NCCL(ncclCommDestroy(rest));
}
TEST_CASE("processes: one is killed in a collective", "[.]") { killed_in_a_collective(false); }
TEST_CASE("processes: one is killed in a collective, and the communicator revoked", "[.]") {
  killed_in_a_collective(true);
}

TEST_CASE("processes: one is killed between collectives", "[.]") {
  const ncclComm_t comm = connect();
  Place<> at;
  check_sum(comm, at, {0, 1, 2, 3});
  meet("done");
  if (process == 1) die();
  CHECK(leave(comm, ncclSuccess) == ncclRemoteError);
  ncclComm_t rest = nullptr, next = nullptr;
  int lost[] = {1, 3};
  EXPECT(ncclCommSplit(comm, 0, 0, &rest, nullptr), ncclRemoteError);
  NCCL(ncclCommShrink(comm, lost, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));  // nothing is on its way
  REQUIRE(rest != nullptr);
  check_sum(rest, at, {0, 2, 3});
  NCCL(ncclCommAbort(comm));
  // Now one that owes another a message.
  if (process == 0) NCCL(ncclRecv(at.b, count, ncclFloat, 2, rest, at.stream));
  meet("called", {0, 2, 3});
  if (process == 3) die();
  CHECK(leave(rest, ncclSuccess) == ncclRemoteError);
  NCCL(ncclCommRevoke(rest, NCCL_REVOKE_DEFAULT));
  int gone = 2;
  NCCL(ncclCommShrink(rest, &gone, 1, &next, nullptr, NCCL_SHRINK_DEFAULT));
  REQUIRE(next != nullptr);
  check_sum(next, at, {0, 2});
  NCCL(ncclCommDestroy(rest));
  NCCL(ncclCommDestroy(next));
}

TEST_CASE("processes: one is killed while the others wait for it", "[.]") {
  const ncclComm_t comm = connect();
  ncclComm_t rest = nullptr;
  if (process == 2) {
    await("split.0");
    await("split.1");
    die();
  }
  tell("split." + std::to_string(process));
  EXPECT(ncclCommSplit(comm, 0, 0, &rest, nullptr), ncclRemoteError);
  CHECK(rest == nullptr);
  int lost = 2;
  NCCL(ncclCommShrink(comm, &lost, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
  REQUIRE(rest != nullptr);
  Place<> at;
  check_sum(rest, at, {0, 1});
  NCCL(ncclCommAbort(comm));
  NCCL(ncclCommDestroy(rest));
}

TEST_CASE("processes: one is killed before all have joined", "[.]") {
  const ncclUniqueId id = share_id();
  OK(cudaSetDevice(process));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  if (process < 2) EXPECT(ncclCommInitRankConfig(&comm, processes, id, process, &config), ncclInProgress);
  meet("joined");
  if (process == 1) die();
  if (process == 2) return;  // it never joins
  CHECK(leave(comm, ncclInProgress) == ncclRemoteError);
  NCCL(ncclCommAbort(comm));
}

TEST_CASE("processes: one is killed before it joins", "[.]") {
  const ncclUniqueId id = share_id();
  if (process == 1) die();
  OK(cudaSetDevice(process));
  ncclComm_t comm = nullptr;
  EXPECT(ncclCommInitRank(&comm, processes, id, process), ncclInvalidUsage);
  CHECK(comm == nullptr);
}

TEST_CASE("processes: one aborts", "[.]") {
  const ncclComm_t comm = connect();
  Place<> at;
  at.fill();
  if (process == 1) {
    NCCL(ncclCommAbort(comm));
    tell("aborted");
    return;
  }
  await("aborted");
  NCCL(ncclAllReduce(at.a, at.b, count, ncclFloat, ncclSum, comm, at.stream));
  EXPECT(cudaStreamSynchronize(at.stream), cudaErrorLaunchTimeout);
  (void)cudaGetLastError();
  NCCL(ncclCommAbort(comm));
  OK(cudaStreamSynchronize(at.stream));
}

TEST_CASE("processes: all are killed", "[.]") {
  (void)connect();
  meet("joined");
  die();
}

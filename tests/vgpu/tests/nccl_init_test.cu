// NCCL's communicators: in groups, by a thread for each rank, over several processes.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "world.hpp"

TEST_CASE("NCCL communicators made in groups") {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[n];
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < n; ++rank) {
    OK(cudaSetDevice(rank));
    NCCL(ncclCommInitRank(&comms[rank], n, id, rank));
  }
  NCCL(ncclGroupEnd());
  // Splits in a group, too; one rank stays out.
  ncclComm_t parts[n];
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < n; ++rank)
    NCCL(ncclCommSplit(comms[rank], rank == 3 ? NCCL_SPLIT_NOCOLOR : 0, rank, &parts[rank], nullptr));
  NCCL(ncclGroupEnd());
  int ranks = 0;
  NCCL(ncclCommCount(parts[0], &ranks));
  CHECK((ranks == 3 && parts[3] == nullptr));
  for (int rank = 0; rank < 3; ++rank) NCCL(ncclCommDestroy(parts[rank]));
  for (int rank = 0; rank < n; ++rank) NCCL(ncclCommDestroy(comms[rank]));
  EXPECT(ncclCommCount(comms[0], &ranks), ncclInvalidArgument);  // destroyed
  // Two ranks on one device.
  const int twice[] = {0, 1, 1};
  EXPECT(ncclCommInitAll(comms, 3, twice), ncclInvalidUsage);
  NCCL(ncclGetUniqueId(&id));
  OK(cudaSetDevice(0));
  NCCL(ncclGroupStart());
  (void)ncclCommInitRank(&comms[0], 2, id, 0);
  (void)ncclCommInitRank(&comms[1], 2, id, 1);
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  // Not blocking.
  NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  OK(cudaSetDevice(0));
  EXPECT(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress);
  ncclResult_t state;
  NCCL(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclInProgress);
  OK(cudaSetDevice(1));
  (void)ncclCommInitRankConfig(&comms[1], 2, id, 1, &config);
  NCCL(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclSuccess);
  NCCL(ncclCommDestroy(comms[0]));
  NCCL(ncclCommDestroy(comms[1]));
}

TEST_CASE("NCCL that does not block puts work on its streams when it is asked") {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2];
  cudaStream_t streams[2];
  float* data[2];
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    OK(cudaSetDevice(rank));
    (void)ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config);
  }
  EXPECT(ncclGroupEnd(), ncclInProgress);
  for (int rank = 0; rank < 2; ++rank) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(comms[rank], &state));
    CHECK(state == ncclSuccess);
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
    data[rank] = upload(std::vector<float>(count, 1.0f + rank));
  }
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    NCCL(ncclAllReduce(data[rank], data[rank], count, ncclFloat, ncclSum, comms[rank], streams[rank]));
  EXPECT(ncclGroupEnd(), ncclInProgress);
  OK(cudaStreamSynchronize(streams[0]));
  CHECK(all(fetch(data[0], count), 1.0f));  // nothing is there yet
  EXPECT(ncclAllReduce(data[0], data[0], count, ncclFloat, ncclSum, comms[0], streams[0]),
         ncclInvalidArgument);
  for (int rank = 0; rank < 2; ++rank) {
    ncclResult_t state = ncclSuccess;
    NCCL(ncclCommGetAsyncError(comms[rank], &state));
    CHECK(state == ncclInProgress);
    while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(comms[rank], &state));
    CHECK(state == ncclSuccess);
  }
  for (int rank = 0; rank < 2; ++rank) {
    OK(cudaSetDevice(rank));
    OK(cudaStreamSynchronize(streams[rank]));
    CHECK(all(fetch(data[rank], count), 3.0f));
    NCCL(ncclCommDestroy(comms[rank]));
    OK(cudaFree(data[rank]));
    OK(cudaStreamDestroy(streams[rank]));
  }
}

TEST_CASE("NCCL from a thread for each rank") {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> list;
  std::atomic<int> good{0};
  for (int rank = 0; rank < n; ++rank)
    list.emplace_back([&, rank] {
      cudaSetDevice(rank);
      ncclComm_t comm;
      bool fine = ncclCommInitRank(&comm, n, id, rank) == ncclSuccess;
      float* data = nullptr;
      cudaStream_t stream;
      fine = fine && cudaMalloc(&data, count * sizeof(float)) == cudaSuccess &&
             cudaStreamCreate(&stream) == cudaSuccess;
      for (int round = 0; round < 20; ++round) {
        std::vector<float> host(count, static_cast<float>(rank + round));
        cudaMemcpyAsync(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream);
        add<<<4, 256, 0, stream>>>(data, count, 1);
        fine = fine && ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, stream) == ncclSuccess;
        cudaMemcpyAsync(host.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost, stream);
        fine = fine && cudaStreamSynchronize(stream) == cudaSuccess && all(host, 6.0f + 4 * round + 4);
      }
      ncclComm_t half;
      fine = fine && ncclCommSplit(comm, rank % 2, -rank, &half, nullptr) == ncclSuccess;
      int ranks = 0, mine = -1;
      ncclCommCount(half, &ranks);
      ncclCommUserRank(half, &mine);
      fine = fine && ranks == 2 && mine == (rank < 2 ? 1 : 0);  // keys reverse the order
      std::vector<float> host(count, static_cast<float>(rank));
      cudaMemcpyAsync(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream);
      fine = fine && ncclAllReduce(data, data, count, ncclFloat, ncclSum, half, stream) == ncclSuccess;
      cudaMemcpyAsync(host.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost, stream);
      fine = fine && all(host, rank % 2 ? 4.0f : 2.0f);
      if (rank != 1) {
        int excluded = 1;
        ncclComm_t rest;
        fine = fine && ncclCommShrink(comm, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT) == ncclSuccess;
        ncclCommCount(rest, &ranks);
        fine = fine && ranks == 3;
        ncclCommDestroy(rest);
      }
      ncclComm_t again;  // the rank that was left out, too
      fine = fine && ncclCommSplit(comm, 0, rank, &again, nullptr) == ncclSuccess;
      ncclCommCount(again, &ranks);
      fine = fine && ranks == n && ncclCommDestroy(again) == ncclSuccess;
      fine = fine && ncclCommFinalize(comm) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess &&
             ncclCommDestroy(half) == ncclSuccess;
      fine = fine && cudaFree(data) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess;
      good += fine;
    });
  for (auto& thread : list) thread.join();
  CHECK(good == n);
}

// A process per rank, two ranks in the last one; reductions, messages and splits between them.
static void run_process(int process, const ncclUniqueId& id) {
  const std::vector<int> ranks = process == 2 ? std::vector<int>{2, 3} : std::vector<int>{process};
  std::map<int, ncclComm_t> comms, halves;
  std::map<int, cudaStream_t> streams;
  std::map<int, float*> data;
  NCCL(ncclGroupStart());
  for (int rank : ranks) {
    OK(cudaSetDevice(rank));
    NCCL(ncclCommInitRank(&comms[rank], n, id, rank));
  }
  NCCL(ncclGroupEnd());
  for (int rank : ranks) {
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreate(&streams[rank]));
    OK(cudaMalloc(&data[rank], 2 * count * sizeof(float)));
  }
  auto set = [&](auto value) {
    for (int rank : ranks) {
      OK(cudaSetDevice(rank));
      std::vector<float> host(2 * count, value(rank));
      OK(cudaMemcpyAsync(data[rank], host.data(), 2 * count * sizeof(float), cudaMemcpyHostToDevice,
                         streams[rank]));
    }
  };
  auto get = [&](int rank, std::size_t at) {
    OK(cudaSetDevice(rank));
    OK(cudaStreamSynchronize(streams[rank]));
    return fetch(data[rank] + at, 1)[0];
  };
  for (int round = 0; round < 10; ++round) {
    set([&](int rank) { return static_cast<float>(rank + round); });
    NCCL(ncclGroupStart());
    for (int rank : ranks)
      NCCL(ncclAllReduce(data[rank], data[rank], count, ncclFloat, ncclSum, comms[rank], streams[rank]));
    NCCL(ncclGroupEnd());
    for (int rank : ranks) CHECK((get(rank, count - 1) == 6 + 4 * round && get(rank, count) == rank + round));
  }
  set([](int rank) { return static_cast<float>(rank); });
  NCCL(ncclGroupStart());
  for (int rank : ranks) {
    NCCL(ncclSend(data[rank], count, ncclFloat, (rank + 1) % n, comms[rank], streams[rank]));
    NCCL(ncclRecv(data[rank] + count, count, ncclFloat, (rank + n - 1) % n, comms[rank], streams[rank]));
  }
  NCCL(ncclGroupEnd());
  for (int rank : ranks) CHECK(get(rank, count) == (rank + n - 1) % n);
  NCCL(ncclGroupStart());
  for (int rank : ranks) NCCL(ncclCommSplit(comms[rank], rank % 2, rank, &halves[rank], nullptr));
  NCCL(ncclGroupEnd());
  set([](int rank) { return static_cast<float>(rank); });
  NCCL(ncclGroupStart());
  for (int rank : ranks)
    NCCL(ncclAllReduce(data[rank], data[rank], count, ncclFloat, ncclMax, halves[rank], streams[rank]));
  NCCL(ncclGroupEnd());
  for (int rank : ranks) CHECK(get(rank, 0) == (rank % 2 ? 3 : 2));
  for (int rank : ranks) {
    NCCL(ncclCommDestroy(halves[rank]));
    NCCL(ncclCommDestroy(comms[rank]));
    OK(cudaSetDevice(rank));
    OK(cudaFree(data[rank]));
    OK(cudaStreamDestroy(streams[rank]));
  }
}

TEST_CASE("a process of three", "[.]") {  // processes.sh starts them
  const int process = std::atoi(std::getenv("VGPU_TEST_PROCESS"));
  const std::string path = std::string(std::getenv("VGPU_TEST_FOLDER")) + "/id";
  ncclUniqueId id;
  if (process == 0) {
    NCCL(ncclGetUniqueId(&id));
    std::ofstream(path + ".part", std::ios::binary).write(id.internal, sizeof id.internal);
    std::filesystem::rename(path + ".part", path);
  } else {
    while (!std::filesystem::exists(path)) std::this_thread::yield();
    std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal);
  }
  run_process(process, id);
}

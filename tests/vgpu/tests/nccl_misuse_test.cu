// What NCCL would answer with a hang, with corrupt data or by luck is reported.
#include <atomic>
#include <regex>
#include <thread>
#include <vector>

#include "world.hpp"

TEST_CASE("NCCL ranks initialised by one thread outside a group are refused") {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm;
  OK(cudaSetDevice(0));
  EXPECT(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidUsage);
}

TEST_CASE("a collective of one thread outside a group is refused") {
  World<> w;
  w.set([](int, std::size_t) { return 1.0f; });
  NCCL(ncclAllReduce(w.a[0], w.b[0], count, ncclFloat, ncclSum, w.comms[0], w.streams[0]));
  EXPECT(ncclAllReduce(w.a[1], w.b[1], count, ncclFloat, ncclSum, w.comms[1], w.streams[1]),
         ncclInvalidUsage);
  ncclResult_t state;
  NCCL(ncclCommGetAsyncError(w.comms[0], &state));
  CHECK(state == ncclInvalidUsage);
  w.abandon();
}

TEST_CASE("NCCL refuses wrong arguments") {
  World<> w;
  std::vector<float> host(count);
  EXPECT(ncclAllReduce(host.data(), w.b[0], count, ncclFloat, ncclSum, w.comms[0], w.streams[0]),
         ncclInvalidArgument);  // host memory
  EXPECT(ncclAllReduce(w.a[1], w.b[0], count, ncclFloat, ncclSum, w.comms[0], w.streams[0]),
         ncclInvalidArgument);  // other device
  EXPECT(ncclAllReduce(w.a[0], w.b[0], w.size + 1, ncclFloat, ncclSum, w.comms[0], w.streams[0]),
         ncclInvalidArgument);  // too long
  EXPECT(ncclAllReduce(w.a[0], w.a[0] + 1, count, ncclFloat, ncclSum, w.comms[0], w.streams[0]),
         ncclInvalidArgument);  // overlap
  EXPECT(ncclAllReduce(w.a[0], w.b[0], count, ncclFloat, ncclSum, w.comms[0], w.streams[1]),
         ncclInvalidUsage);  // other device's stream
  EXPECT(ncclAllReduce(w.a[0], w.b[0], count, static_cast<ncclDataType_t>(99), ncclSum, w.comms[0],
                       w.streams[0]),
         ncclInvalidArgument);
  EXPECT(ncclAllReduce(w.a[0], w.b[0], count, ncclFloat, ncclSum, nullptr, w.streams[0]),
         ncclInvalidArgument);
  EXPECT(ncclBroadcast(w.a[0], w.b[0], count, ncclFloat, 4, w.comms[0], w.streams[0]), ncclInvalidArgument);
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  // A failed call makes the group fail, and nothing of it starts.
  w.set([](int, std::size_t) { return 1.0f; });
  NCCL(ncclGroupStart());
  NCCL(ncclAllReduce(w.a[0], w.b[0], count, ncclFloat, ncclSum, w.comms[0], w.streams[0]));
  EXPECT(ncclAllReduce(host.data(), w.b[1], count, ncclFloat, ncclSum, w.comms[1], w.streams[1]),
         ncclInvalidArgument);
  EXPECT(ncclGroupEnd(), ncclInvalidArgument);
  // In place, as documented.
  w.set([](int d, std::size_t) { return static_cast<float>(d); });
  w.each([&](int d) {
    return ncclAllGather(w.a[d] + d * count, w.a[d], count, ncclFloat, w.comms[d], w.streams[d]);
  });
  CHECK(w.get(0, false)[3 * count] == 3);
  NCCL(ncclAllReduce(w.a[0], w.b[0], 0, ncclFloat, ncclSum, w.comms[0], w.streams[0]));  // nothing
}

TEST_CASE("ranks that call different collectives are reported") {
  World<> w;
  w.set([](int, std::size_t) { return 1.0f; });
  NCCL(ncclGroupStart());
  for (int d = 0; d < n; ++d)
    NCCL(ncclAllReduce(w.a[d], w.b[d], d == 2 ? count - 1 : count, ncclFloat, ncclSum, w.comms[d],
                       w.streams[d]));
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  OK(cudaSetDevice(0));
  EXPECT(cudaStreamSynchronize(w.streams[0]), cudaErrorLaunchFailure);
  w.abandon();
}

TEST_CASE("a rank that never calls is reported") {  // rank 2 never calls
  World<> w;
  w.set([](int, std::size_t) { return 1.0f; });
  NCCL(ncclGroupStart());
  for (int d = 0; d < n; ++d)
    if (d != 2) NCCL(ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]));
  NCCL(ncclGroupEnd());
  OK(cudaSetDevice(2));
  OK(cudaStreamSynchronize(w.streams[2]));
  OK(cudaSetDevice(0));
  EXPECT(cudaStreamSynchronize(w.streams[0]), cudaErrorLaunchTimeout);
  // Aborting frees the streams.
  for (int d = 0; d < n; ++d) {
    NCCL(ncclCommAbort(w.comms[d]));
    w.comms[d] = nullptr;
  }
  OK(cudaStreamSynchronize(w.streams[0]));
  (void)cudaGetLastError();
}

TEST_CASE("communicators used in opposite orders are reported") {  // two communicators, used in opposite
                                                                   // orders by two ranks' streams
  World<> w;
  std::vector<ncclComm_t> second(n);
  NCCL(ncclCommInitAll(second.data(), n, nullptr));
  w.set([](int, std::size_t) { return 1.0f; });
  std::vector<std::thread> list;
  std::atomic<int> stuck{0};
  for (int d = 0; d < n; ++d)
    list.emplace_back([&, d] {
      cudaSetDevice(d);
      for (int step = 0; step < 2; ++step)
        ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, (step + d) % 2 ? second[d] : w.comms[d],
                      w.streams[d]);
      stuck += cudaStreamSynchronize(w.streams[d]) == cudaErrorLaunchTimeout;
    });
  for (auto& thread : list) thread.join();
  CHECK(stuck == n);
  w.abandon();
}

TEST_CASE("injected failures of NCCL") {  // VGPU_FAIL=ncclAllReduce:2=ncclSystemError
  World<> w;
  w.set([](int, std::size_t) { return 1.0f; });
  NCCL(ncclGroupStart());
  NCCL(ncclAllReduce(w.a[0], w.b[0], count, ncclFloat, ncclSum, w.comms[0], w.streams[0]));
  EXPECT(ncclAllReduce(w.a[1], w.b[1], count, ncclFloat, ncclSum, w.comms[1], w.streams[1]), ncclSystemError);
  EXPECT(ncclGroupEnd(), ncclSystemError);
}

TEST_CASE("a group that fails at its end is over") {  // VGPU_FAIL=ncclGroupEnd:1=ncclSystemError
  World<> w;
  w.set([](int, std::size_t) { return 1.0f; });
  const auto reduce_all = [&] {
    NCCL(ncclGroupStart());
    for (int d = 0; d < n; ++d)
      NCCL(ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]));
    return ncclGroupEnd();
  };
  EXPECT(reduce_all(), ncclSystemError);
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  NCCL(reduce_all());
  for (int d = 0; d < n; ++d) CHECK(w.get(d)[0] == 4.0f);
}

TEST_CASE("current-device: an error of NCCL leaves another device current") {
  World<> w;
  OK(cudaSetDevice(1));
  NCCL(ncclGroupStart());
  for (int d : {0, 1, 2})
    NCCL(ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]));
  EXPECT(ncclAllReduce(w.a[3], w.b[3], count, ncclFloat, ncclSum, w.comms[3], w.streams[0]),
         ncclInvalidUsage);
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  int device = -1;
  OK(cudaGetDevice(&device));
  CHECK(device == 3);
}

TEST_CASE("a communicator outlives the graphs that have its calls") {
  World<> w;
  w.set([](int, std::size_t) { return 1.0f; });
  cudaGraphExec_t execs[n];
  cudaGraph_t graphs[n];
  cudaEvent_t recorded = nullptr;  // keeps no graph alive
  for (int d = 0; d < n; ++d) OK((cudaSetDevice(d), cudaStreamSynchronize(w.streams[d])));
  OK((cudaSetDevice(0), cudaEventCreate(&recorded)));
  for (int d = 0; d < n; ++d)
    OK((cudaSetDevice(d), cudaStreamBeginCapture(w.streams[d], cudaStreamCaptureModeThreadLocal)));
  w.each([&](int d) {
    return ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]);
  });
  OK(cudaEventRecord(recorded, w.streams[0]));
  for (int d = 0; d < n; ++d) {
    OK((cudaSetDevice(d), cudaStreamEndCapture(w.streams[d], &graphs[d])));
    OK(cudaGraphInstantiate(&execs[d], graphs[d], 0));
  }
  for (int d = 0; d < n; ++d) OK((cudaSetDevice(d), cudaGraphLaunch(execs[d], w.streams[d])));
  CHECK(w.get(2)[0] == 4);
  EXPECT(ncclCommDestroy(w.comms[0]), ncclSystemError);
  EXPECT(ncclCommAbort(w.comms[0]), ncclSystemError);
  EXPECT(ncclCommFinalize(w.comms[0]), ncclSystemError);
  const std::string message = ncclGetLastError(w.comms[0]);
  CHECK(std::regex_match(
      message, std::regex("ncclCommFinalize of rank 0 of communicator 1: its calls are in executable "
                          "graph (\\d+) \\(of graph (\\d+)\\), graph \\2; .*")));
  for (int d = 0; d < n; ++d) OK(cudaGraphDestroy(graphs[d]));
  EXPECT(ncclCommDestroy(w.comms[0]), ncclSystemError);
  CHECK(std::string(ncclGetLastError(w.comms[0])).find(", graph") == std::string::npos);
  for (int d = 0; d < n; ++d) OK(cudaGraphExecDestroy(execs[d]));
  NCCL(ncclCommDestroy(w.comms[0]));
  w.comms[0] = nullptr;
  OK(cudaEventDestroy(recorded));
  // The world's end destroys the other communicators.
}

TEST_CASE("allocation-waits: an allocation behind a collective that another rank has yet to call") {
  World<> w;
  w.set([](int, std::size_t) { return 1.0f; });
  for (int d = 0; d < n; ++d) OK((cudaSetDevice(d), cudaStreamSynchronize(w.streams[d])));
  const auto call = [&](int d) {
    return ncclAllReduce(w.a[d], w.b[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]);
  };
  NCCL(ncclGroupStart());
  for (int d = 0; d < 3; ++d) NCCL(call(d));
  NCCL(ncclGroupEnd());
  void* data = nullptr;
  OK(cudaSetDevice(3));
  OK(cudaMalloc(&data, 4));  // its device has nothing to do
  OK(cudaFree(data));
  OK(cudaSetDevice(0));
  EXPECT(cudaMalloc(&data, 4), cudaErrorLaunchTimeout);
  (void)cudaGetLastError();
  NCCL(call(3));
  CHECK(w.get(2)[0] == 4);
}

TEST_CASE("shrinks with different lists of ranks are reported") {
  World<> w;
  std::vector<std::thread> list;
  std::atomic<int> refused{0};
  for (int d = 0; d < 2; ++d)
    list.emplace_back([&, d] {
      cudaSetDevice(d);
      int excluded[] = {2, 3};
      ncclComm_t rest = nullptr;
      refused += ncclCommShrink(w.comms[d], excluded, d + 1, &rest, nullptr, NCCL_SHRINK_DEFAULT) ==
                 ncclInvalidUsage;
    });
  for (auto& thread : list) thread.join();
  CHECK(refused == 2);
}

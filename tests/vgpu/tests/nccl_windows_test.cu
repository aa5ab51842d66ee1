// Windows: memory that all ranks register together, in the same order.
#include <chrono>
#include <thread>
#include <vector>

#include "world.hpp"

namespace {

constexpr std::size_t bytes = 1 << 20;

// One window of each rank.
struct Windows {
  explicit Windows(World<>& world, std::size_t size = bytes) : w(world) {
    for (int d = 0; d < n; ++d) {
      OK(cudaSetDevice(d));
      NCCL(ncclMemAlloc(reinterpret_cast<void**>(&data[d]), size));
    }
    w.each([&](int d) {
      return ncclCommWindowRegister(w.comms[d], data[d], size, &handles[d], NCCL_WIN_COLL_SYMMETRIC);
    });
  }
  ~Windows() {
    for (int d = 0; d < n; ++d) {
      OK(cudaSetDevice(d));
      OK(cudaStreamSynchronize(w.streams[d]));
      if (handles[d]) NCCL(ncclCommWindowDeregister(w.comms[d], handles[d]));
      NCCL(ncclMemFree(data[d]));
    }
  }
  World<>& w;
  float* data[n];
  ncclWindow_t handles[n] = {};
};

}  // namespace

TEST_CASE("windows hold what collectives combine") {
  World<> w;
  Windows first(w), second(w, 2 * bytes);
  w.set([](int d, std::size_t) { return d + 1.0f; });
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    CHECK(first.handles[d] != nullptr);
    CHECK(second.handles[d] != nullptr);
    OK(cudaMemcpyAsync(second.data[d] + 4, w.a[d], count * 4, cudaMemcpyDeviceToDevice, w.streams[d]));
  }
  w.each([&](int d) {
    return ncclAllReduce(second.data[d] + 4, second.data[d] + 4, count, ncclFloat, ncclSum, w.comms[d],
                         w.streams[d]);
  });
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    OK(cudaStreamSynchronize(w.streams[d]));
    CHECK(fetch(second.data[d] + 4, count) == std::vector<float>(count, 10));
  }
}

TEST_CASE("windows are registered by a thread for each rank") {
  World<> w;
  Windows windows(w);
  std::vector<std::thread> threads;
  for (int d = 0; d < n; ++d)
    threads.emplace_back([&, d] {
      OK(cudaSetDevice(d));
      NCCL(ncclCommWindowDeregister(w.comms[d], windows.handles[d]));
      NCCL(ncclCommWindowRegister(w.comms[d], windows.data[d], bytes, &windows.handles[d], NCCL_WIN_DEFAULT));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("windows that cannot be are refused") {
  World<> w;
  Windows windows(w);
  ncclWindow_t window;
  const auto try_one = [&](void* data, std::size_t size) {
    OK(cudaSetDevice(0));
    return ncclCommWindowRegister(w.comms[0], data, size, &window, NCCL_WIN_COLL_SYMMETRIC);
  };
  EXPECT(try_one(w.a[0], 4096), ncclInvalidArgument);            // cudaMalloc's
  EXPECT(try_one(windows.data[0], bytes), ncclInvalidArgument);  // twice
  EXPECT(try_one(windows.data[1], bytes), ncclInvalidArgument);  // another device's
  float* more;
  OK(cudaSetDevice(0));
  NCCL(ncclMemAlloc(reinterpret_cast<void**>(&more), bytes));
  EXPECT(try_one(more + 1, 4096), ncclInvalidArgument);   // no multiple of 4096
  EXPECT(try_one(more, 2 * bytes), ncclInvalidArgument);  // too long
  NCCL(ncclMemFree(more));
  NCCL(ncclCommWindowDeregister(w.comms[0], windows.handles[0]));
  EXPECT(ncclCommWindowDeregister(w.comms[0], windows.handles[0]), ncclInvalidArgument);  // twice
  windows.handles[0] = nullptr;
  EXPECT(ncclCommDestroy(w.comms[1]), ncclInvalidUsage);  // its window is still registered
}

TEST_CASE("a window in use is not deregistered") {
  World<> w;
  Windows windows(w);
  w.each([&](int d) {
    return ncclAllReduce(windows.data[d], windows.data[d], count, ncclFloat, ncclSum, w.comms[d],
                         w.streams[d]);
  });
  EXPECT(ncclCommWindowDeregister(w.comms[0], windows.handles[0]), ncclInvalidUsage);
}

TEST_CASE("windows of different sizes are reported") {
  World<> w;
  float* data[n];
  ncclWindow_t handles[n];
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    NCCL(ncclMemAlloc(reinterpret_cast<void**>(&data[d]), bytes));
  }
  NCCL(ncclGroupStart());
  for (int d = 0; d < n; ++d)
    NCCL(ncclCommWindowRegister(w.comms[d], data[d], d == 2 ? 4096 : bytes, &handles[d],
                                NCCL_WIN_COLL_SYMMETRIC));
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  for (int d = 0; d < n; ++d) NCCL(ncclMemFree(data[d]));
}

TEST_CASE("a collective outside the window on one rank is reported") {
  World<> w;
  Windows& windows = *new Windows(w);
  w.set([](int, std::size_t) { return 1.0f; });
  NCCL(ncclCommWindowDeregister(w.comms[2], windows.handles[2]));
  NCCL(ncclGroupStart());
  for (int d = 0; d < n; ++d)
    NCCL(
        ncclAllReduce(windows.data[d], windows.data[d], count, ncclFloat, ncclSum, w.comms[d], w.streams[d]));
  EXPECT(ncclGroupEnd(), ncclInvalidUsage);
  for (int d = 0; d < n; ++d) {
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(w.comms[d], &state));
    CHECK(state == ncclInvalidUsage);
  }
  w.abandon();
}

TEST_CASE("a revocation ends the wait for ranks that do not register") {
  World<> w;
  float* data;
  OK(cudaSetDevice(0));
  NCCL(ncclMemAlloc(reinterpret_cast<void**>(&data), bytes));
  std::thread waits([&] {
    OK(cudaSetDevice(0));
    ncclWindow_t window;
    EXPECT(ncclCommWindowRegister(w.comms[0], data, bytes, &window, NCCL_WIN_COLL_SYMMETRIC),
           ncclInternalError);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  NCCL(ncclCommRevoke(w.comms[0], 0));
  waits.join();
  NCCL(ncclMemFree(data));
}

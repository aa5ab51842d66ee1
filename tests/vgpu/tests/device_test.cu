// Devices: properties, failures, injected ones.
#include <cstring>
#include <string>

#include <dlfcn.h>

#include "check.hpp"
#include "kernels.hpp"

static __global__ void store_at(int* where) { *where = 1; }

TEST_CASE("properties and attributes") {
  cudaDeviceProp p;
  OK(cudaGetDeviceProperties(&p, 1));
  CHECK((!std::strcmp(p.name, "vGPU") && p.major == 9 && p.minor == 0 && p.multiProcessorCount == 132 &&
         p.l2CacheSize == 50 << 20 && p.warpSize == 32));
  int value = 0;
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1));
  CHECK(value == 132);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1));
  CHECK(value == 9);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 4), cudaErrorInvalidDevice);
  EXPECT(cudaSetDevice(4), cudaErrorInvalidDevice);
  EXPECT(cudaSetDevice(-1), cudaErrorInvalidDevice);
  char bus[32];
  OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 3));
  OK(cudaDeviceGetByPCIBusId(&value, bus));
  CHECK(value == 3);
  cudaDeviceProp q;
  OK(cudaGetDeviceProperties(&q, 2));
  CHECK(std::memcmp(&p.uuid, &q.uuid, sizeof p.uuid) != 0);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, fill));
  CHECK(attributes.maxThreadsPerBlock == 1024);
  int blocks = 0, size = 0, grid = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 0));
  CHECK(blocks == 8);
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &size, fill));
  CHECK((size > 0 && grid >= 132));
  CHECK(!std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation"));
  CHECK(!std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"));
  (void)cudaGetLastError();
}

TEST_CASE("a fault makes its device fail, and no other") {
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  fill<<<4, 2000>>>(data, count, 1);  // a bad launch is not sticky
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  OK(cudaDeviceSynchronize());
  fill<<<0, 1>>>(data, count, 1);
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  fill<<<1, 1, 300 << 10>>>(data, count, 1);
  EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
  fill<<<4, 256, 0, stream>>>(data, count + 1, 1);  // one element too many
  EXPECT(cudaGetLastError(), cudaSuccess);          // not known yet
  EXPECT(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  void* more = nullptr;
  EXPECT(cudaMalloc(&more, 4), cudaErrorIllegalAddress);
  EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT(cudaSetDevice(1), cudaSuccess);  // other devices go on
  int* there = nullptr;
  OK(cudaMalloc(&there, bytes));
  fill_async(there, 2, nullptr);
  CHECK(all(fetch(there, count), 2));
  // Host memory, and another device's memory without peer access, fault too.
  OK(cudaSetDevice(2));
  store_at<<<1, 1>>>(there);
  EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  OK(cudaSetDevice(3));
  static int host_variable = 0;
  store_at<<<1, 1>>>(&host_variable);
  EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  OK(cudaDeviceReset());  // the device can be had again
  OK(cudaMalloc(&more, 4));
  OK(cudaFree(more));
}

TEST_CASE(
    "injected failures of the runtime") {  // VGPU_FAIL=cudaMalloc:2,kernel:3,cudaStreamCreate:1+=cudaErrorInvalidValue
  int *a = nullptr, *b = nullptr;
  OK(cudaMalloc(&a, bytes));
  EXPECT(cudaMalloc(&b, bytes), cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaMalloc(&b, bytes));
  cudaStream_t stream;
  EXPECT(cudaStreamCreate(&stream), cudaErrorInvalidValue);
  EXPECT(cudaStreamCreate(&stream), cudaErrorInvalidValue);
  (void)cudaGetLastError();
  fill_async(a, 1, nullptr);
  fill_async(a, 2, nullptr);
  OK(cudaDeviceSynchronize());
  fill_async(a, 3, nullptr);
  EXPECT(cudaGetLastError(), cudaSuccess);
  EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
}

// What two devices say of the link between them, as "access atomics rank".
static std::string link_of_devices() {
  int can = -1, access = -1, atomics = -1, rank = -1;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  OK(cudaDeviceGetP2PAttribute(&access, cudaDevP2PAttrAccessSupported, 0, 1));
  OK(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, 0, 1));
  OK(cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, 0, 1));
  CHECK(can == access);
  return std::to_string(access) + ' ' + std::to_string(atomics) + ' ' + std::to_string(rank);
}

// A copy between the devices works over every link, a kernel's access to its peer's memory over pcie and
// nvlink.
static void reach_peer(bool reachable) {
  int *here = nullptr, *there = nullptr;
  OK(cudaMalloc(&here, bytes));
  fill_async(here, 5, nullptr);
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&there, bytes));
  OK(cudaMemcpyPeer(there, 1, here, 0, bytes));
  CHECK(all(fetch(there, count), 5));
  EXPECT(cudaDeviceEnablePeerAccess(0, 0), reachable ? cudaSuccess : cudaErrorPeerAccessUnsupported);
  (void)cudaGetLastError();
  copy<<<4, 256>>>(there, here, count);
  EXPECT(cudaDeviceSynchronize(), reachable ? cudaSuccess : cudaErrorIllegalAddress);
}

TEST_CASE("the virtual link none") {
  CHECK(link_of_devices() == "0 0 1");
  reach_peer(false);
}
TEST_CASE("the virtual link pcie") {
  CHECK(link_of_devices() == "1 0 1");
  reach_peer(true);
}
TEST_CASE("the virtual link nvlink") {
  CHECK(link_of_devices() == "1 1 0");
  reach_peer(true);
}

static std::vector<std::string> seen_calls;

TEST_CASE("a program watches its calls, and makes them fail") {
  const auto on_call =
      reinterpret_cast<void (*)(int (*)(const char*, int))>(dlsym(RTLD_DEFAULT, "vgpu_on_call"));
  REQUIRE(on_call != nullptr);
  on_call([](const char* name, int is_over) -> int {
    seen_calls.push_back(std::string(name) + (is_over ? " is over" : ""));
    return std::strcmp(name, "cudaMalloc") == 0 && !is_over ? cudaErrorMemoryAllocation : 0;
  });
  void* data = nullptr;
  EXPECT(cudaMalloc(&data, 100), cudaErrorMemoryAllocation);
  OK(cudaDeviceSynchronize());
  on_call(nullptr);
  CHECK(seen_calls == std::vector<std::string>{"cudaMalloc", "cudaMalloc is over", "cudaDeviceSynchronize",
                                               "cudaDeviceSynchronize is over"});
  OK(cudaMalloc(&data, 100));
  OK(cudaFree(data));
}

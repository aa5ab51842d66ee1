// Machines of other kinds: drivers, capabilities, compute modes, forks.
#include <sys/wait.h>
#include <unistd.h>

#include "check.hpp"
#include "kernels.hpp"

// Every call fails with `wanted`, also those that ask which devices there are.
static void nothing_works(cudaError_t wanted) {
  int count_of_devices = -1;
  EXPECT(cudaGetDeviceCount(&count_of_devices), wanted);
  CHECK(count_of_devices == 0);
  EXPECT(cudaGetLastError(), wanted);
  cudaDeviceProp properties;
  EXPECT(cudaGetDeviceProperties(&properties, 0), wanted);
  EXPECT(cudaSetDevice(0), wanted);
  void* data = nullptr;
  EXPECT(cudaMalloc(&data, 4), wanted);
  (void)cudaGetLastError();
}

TEST_CASE("an old driver fails every call") {
  int driver = 0, runtime = 0;
  OK(cudaDriverGetVersion(&driver));
  OK(cudaRuntimeGetVersion(&runtime));
  CHECK((driver == 12080 && runtime == CUDART_VERSION));
  nothing_works(cudaErrorInsufficientDriver);
}

TEST_CASE("without the fabric manager every call fails") { nothing_works(cudaErrorSystemNotReady); }

TEST_CASE("each device has its compute capability, and runs the code for it") {  // 9.0, 7.0
  cudaDeviceProp first, second;
  OK(cudaGetDeviceProperties(&first, 0));
  OK(cudaGetDeviceProperties(&second, 1));
  CHECK((first.major == 9 && second.major == 7 && second.minor == 0));
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  fill_async(data, 1, nullptr);
  OK(cudaGetLastError());
  CHECK(all(fetch(data, count), 1));
  OK(cudaSetDevice(1));
  int* there = nullptr;
  OK(cudaMalloc(&there, bytes));
  fill_async(there, 1, nullptr);
  EXPECT(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
}

TEST_CASE("each device's blocks have the shared memory of its compute capability") {  // 9.0, 8.6
  for (int device = 0; device < 2; ++device) {
    OK(cudaSetDevice(device));
    const int wanted = (device == 0 ? 227 : 99) << 10;
    int most = 0;
    OK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    CHECK(most == wanted);
    EXPECT(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, wanted + 1),
           cudaErrorInvalidValue);
    EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, wanted));
    fill<<<1, 256, wanted>>>(nullptr, 0, 1);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
  }
  fill<<<1, 256, 227 << 10>>>(nullptr, 0, 1);
  EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_CASE(
    "a device that is prohibited or taken has no context for the program") {  // default first, exclusive last
  const int modes[] = {cudaComputeModeDefault, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess,
                       cudaComputeModeExclusiveProcess};
  for (int device = 0; device < 4; ++device) {
    int mode = -1;
    OK(cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device));
    CHECK(mode == modes[device]);
    EXPECT(cudaSetDevice(device), device == 1 || device == 2 ? cudaErrorDevicesUnavailable : cudaSuccess);
    int current = -1;
    OK(cudaGetDevice(&current));
    CHECK(current == (device == 3 ? 3 : 0));
  }
  (void)cudaGetLastError();
}

TEST_CASE("a device without pools has cudaMalloc alone") {
  int pools = -1;
  OK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0));
  CHECK(pools == 0);
  void* data = nullptr;
  EXPECT(cudaMallocAsync(&data, 4, nullptr), cudaErrorNotSupported);
  cudaMemPool_t pool = nullptr;
  EXPECT(cudaDeviceGetDefaultMemPool(&pool, 0), cudaErrorNotSupported);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  EXPECT(cudaMemPoolCreate(&pool, &properties), cudaErrorNotSupported);
  (void)cudaGetLastError();
  OK(cudaMalloc(&data, 4));
  OK(cudaFree(data));
}

TEST_CASE("a fork of a process that has called the runtime can call nothing") {
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  const pid_t child = fork();
  if (child == 0) {
    int value = 0;
    const bool fails = cudaGetDeviceCount(&value) == cudaErrorInitializationError &&
                       cudaFree(data) == cudaErrorInitializationError &&
                       cudaDeviceSynchronize() == cudaErrorInitializationError;
    _exit(fails ? 7 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  OK(cudaFree(data));
}

TEST_CASE("a fork of a process that has called nothing has devices") {
  const pid_t child = fork();
  if (child == 0) {
    int devices = 0;
    void* data = nullptr;
    const bool works = cudaGetDeviceCount(&devices) == cudaSuccess && devices == 4 &&
                       cudaMalloc(&data, 4) == cudaSuccess && cudaFree(data) == cudaSuccess;
    _exit(works ? 7 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
}

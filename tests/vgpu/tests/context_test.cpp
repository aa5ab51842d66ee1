// Primary contexts: who makes them, which is current.
#include <thread>

#include "check.hpp"

// Finds a function of the driver's API.
static void* driver(const char* name) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult found{};
  OK(cudaGetDriverEntryPointByVersion(name, &pointer, 12000, cudaEnableDefault, &found));
  REQUIRE(found == cudaDriverEntryPointSuccess);
  return pointer;
}

using GetContext = int (*)(void**);
using SetContext = int (*)(void*);
using GetDevice = int (*)(int*);
using GetState = int (*)(int, unsigned*, int*);
using Retain = int (*)(void**, int);
using Release = int (*)(int);

static bool has_context(int device) {
  const auto get_state = reinterpret_cast<GetState>(driver("cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = -1;
  const int result = get_state(device, &flags, &active);
  CHECK(result == 0);
  return active == 1;
}

static void* current_context() {
  const auto get_context = reinterpret_cast<GetContext>(driver("cuCtxGetCurrent"));
  void* context = nullptr;
  const int result = get_context(&context);
  CHECK(result == 0);
  return context;
}

static int make_current(void* context) {
  return reinterpret_cast<SetContext>(driver("cuCtxSetCurrent"))(context);
}

TEST_CASE("only what needs a context makes one") {
  int devices = 0, device = -1;
  OK(cudaGetDeviceCount(&devices));
  OK(cudaGetDevice(&device));
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 1));
  CHECK(device == 0);
  CHECK(current_context() == nullptr);
  for (int d = 0; d < devices; ++d) CHECK(!has_context(d));

  OK(cudaSetDevice(1));
  CHECK(has_context(1));
  CHECK(!has_context(0));
  CHECK(current_context() != nullptr);

  // The runtime's selection outlives the context that was current.
  CHECK(make_current(nullptr) == 0);
  OK(cudaGetDevice(&device));
  CHECK(device == 1);
  CHECK(current_context() == nullptr);
  void* data = nullptr;
  OK(cudaMalloc(&data, 1000));
  CHECK(current_context() != nullptr);
  OK(cudaFree(data));
  CHECK(!has_context(0));

  // A thread that has selected no device uses device 0.
  std::thread([] {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamDestroy(stream);
  }).join();
  CHECK(has_context(0));
}

TEST_CASE("the driver's current context is the runtime's current device") {
  const auto get_device = reinterpret_cast<GetDevice>(driver("cuCtxGetDevice"));
  const auto retain = reinterpret_cast<Retain>(driver("cuDevicePrimaryCtxRetain"));
  const auto release = reinterpret_cast<Release>(driver("cuDevicePrimaryCtxRelease"));
  void* second = nullptr;
  CHECK(retain(&second, 1) == 0);
  CHECK(current_context() == nullptr);
  CHECK(make_current(second) == 0);
  int device = -1;
  OK(cudaGetDevice(&device));
  CHECK(device == 1);
  CHECK(get_device(&device) == 0);
  CHECK(device == 1);
  CHECK(!has_context(0));
  CHECK(make_current(nullptr) ==
        0);  // nothing was selected: that the driver's context came and went is forgotten
  OK(cudaGetDevice(&device));
  CHECK(device == 0);
  CHECK(!has_context(0));
  CHECK(release(1) == 0);
  CHECK(release(1) != 0);
  CHECK(make_current(&device) != 0);
}

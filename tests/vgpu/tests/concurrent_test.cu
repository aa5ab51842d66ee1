// Kernels that run at the same time, and wait for each other.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.hpp"
#include "kernels.hpp"

namespace {

__device__ void store_release(unsigned* flag, unsigned value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ unsigned load_acquire(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

// Each thread sends a number to the other device's and waits for the answer, many times.
__global__ void ping_pong(volatile unsigned* own, volatile unsigned* other, unsigned rounds, unsigned* sum) {
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned round = 1; round <= rounds; ++round) {
    other[index] = round;
    while (own[index] < round) {
    }
    sum[index] += round;
  }
}

enum class Flag { release, fence, relaxed, device };

__global__ void produce(unsigned* data, unsigned* flag, Flag how) {
  *data = 7;
  if (how == Flag::release) store_release(flag, 1);
  if (how == Flag::fence) __threadfence_system();
  if (how == Flag::fence || how == Flag::relaxed) *static_cast<volatile unsigned*>(flag) = 1;
  if (how == Flag::device) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
}
__global__ void consume(const unsigned* data, const unsigned* flag, unsigned* result) {
  while (load_acquire(flag) == 0) {
  }
  *result = *data;
}

__global__ void wait_for(const volatile unsigned* flag) {
  while (*flag == 0) {
  }
}

// Memory of each of two devices, which reach each other's.
struct Two {
  cudaStream_t streams[2];
  unsigned* data[2];

  Two() {
    for (int device = 0; device < 2; ++device) {
      OK(cudaSetDevice(device));
      OK(cudaDeviceEnablePeerAccess(1 - device, 0));
      OK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
      OK(cudaMalloc(&data[device], bytes));
      OK(cudaMemset(data[device], 0, bytes));
    }
    for (int device = 0; device < 2; ++device) {
      OK(cudaSetDevice(device));
      OK(cudaDeviceSynchronize());
    }
  }
  ~Two() {
    for (int device = 0; device < 2; ++device) {
      OK(cudaSetDevice(device));
      OK(cudaStreamSynchronize(streams[device]));
      OK(cudaStreamDestroy(streams[device]));
      OK(cudaFree(data[device]));
    }
  }
};

// Whether the consumer on device 1 sees what the producer on device 0 has written.
void hand_over(Flag how) {
  Two two;
  OK(cudaSetDevice(1));
  consume<<<1, 1, 0, two.streams[1]>>>(two.data[0], two.data[1], two.data[1] + 8);
  OK(cudaSetDevice(0));
  produce<<<1, 1, 0, two.streams[0]>>>(two.data[0], two.data[1], how);
  OK(cudaStreamSynchronize(two.streams[1]));
  CHECK(fetch(two.data[1] + 8, 1)[0] == 7);
}

}  // namespace

TEST_CASE("kernels of two devices wait for each other") {
  constexpr unsigned kRounds = 5, kThreads = 64, kBlocks = 3;
  Two two;
  unsigned* sums[2];
  for (int device = 0; device < 2; ++device) {
    OK(cudaSetDevice(device));
    OK(cudaMalloc(&sums[device], kBlocks * kThreads * sizeof(unsigned)));
    OK(cudaMemset(sums[device], 0, kBlocks * kThreads * sizeof(unsigned)));
    OK(cudaDeviceSynchronize());
    ping_pong<<<kBlocks, kThreads, 0, two.streams[device]>>>(two.data[device], two.data[1 - device], kRounds,
                                                             sums[device]);
    // The first one waits for the second one: whoever asks goes on.
    if (device == 0) EXPECT(cudaStreamQuery(two.streams[0]), cudaErrorNotReady);
  }
  for (int device = 0; device < 2; ++device) {
    OK(cudaSetDevice(device));
    OK(cudaStreamSynchronize(two.streams[device]));
    CHECK(all(fetch(sums[device], kBlocks * kThreads), kRounds * (kRounds + 1) / 2));
    OK(cudaFree(sums[device]));
  }
}

TEST_CASE("a kernel sees what the host writes meanwhile") {
  unsigned* flag = nullptr;
  cudaStream_t stream;
  OK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
  std::atomic_ref<unsigned>(*flag).store(0);
  OK(cudaStreamCreate(&stream));
  wait_for<<<1, 32, 0, stream>>>(flag);
  EXPECT(cudaStreamQuery(stream), cudaErrorNotReady);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic_ref<unsigned>(*flag).store(1);
  });
  OK(cudaStreamSynchronize(stream));
  writer.join();
  OK(cudaStreamDestroy(stream));
  OK(cudaFreeHost(flag));
}

TEST_CASE("other work goes on while a kernel waits") {
  Two two;
  OK(cudaSetDevice(0));
  wait_for<<<1, 32, 0, two.streams[0]>>>(two.data[0]);
  EXPECT(cudaStreamQuery(two.streams[0]), cudaErrorNotReady);
  cudaStream_t other;
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  OK(cudaMemsetAsync(two.data[0], 1, sizeof(unsigned), other));
  OK(cudaStreamSynchronize(other));
  OK(cudaStreamSynchronize(two.streams[0]));
  OK(cudaStreamDestroy(other));
}

TEST_CASE("a release and an acquire of the system order what kernels of two devices do") {
  hand_over(Flag::release);
}
TEST_CASE("a fence before a relaxed store releases") { hand_over(Flag::fence); }
TEST_CASE("a relaxed store orders nothing else") { hand_over(Flag::relaxed); }
TEST_CASE("a release to the device does not concern another device") { hand_over(Flag::device); }

TEST_CASE("a kernel that waits for ever is ended") {
  unsigned* flag = nullptr;
  OK(cudaMalloc(&flag, sizeof *flag));
  OK(cudaMemset(flag, 0, sizeof *flag));
  wait_for<<<2, 32>>>(flag);
  EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
}

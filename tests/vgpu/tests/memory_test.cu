// Memory: allocation, bounds, pools, leaks.
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "check.hpp"
#include "kernels.hpp"

TEST_CASE("memory has exact bounds and starts poisoned") {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  CHECK(devices == 4);
  for (int device = 0; device < devices; ++device) {
    OK(cudaSetDevice(device));
    std::size_t before = 0, after = 0, total = 0;
    OK(cudaMemGetInfo(&before, &total));
    CHECK((total == std::size_t{2048} << 20 && before == total));
    unsigned char* data = nullptr;
    OK(cudaMalloc(&data, 1001));
    CHECK(reinterpret_cast<std::uintptr_t>(data) % 256 == 0);
    OK(cudaMemGetInfo(&after, &total));
    CHECK(after < before);
    CHECK(all<unsigned char>(fetch(data, 1001), 0xFB));  // fresh memory is poisoned
    OK(cudaMemset(data, 5, 1001));
    CHECK(all<unsigned char>(fetch(data, 1001), 5));
    char host[1100];
    EXPECT(cudaMemcpy(host, data, 1002, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);  // one byte too far
    EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT(cudaGetLastError(), cudaSuccess);
    EXPECT(cudaFree(data + 1), cudaErrorInvalidValue);
    EXPECT(cudaFree(host), cudaErrorInvalidValue);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, data + 7));
    CHECK((attributes.type == cudaMemoryTypeDevice && attributes.device == device &&
           attributes.devicePointer == data + 7));
    OK(cudaFree(data));
    EXPECT(cudaFree(data), cudaErrorInvalidValue);  // twice
    EXPECT(cudaMemcpy(host, data, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    OK(cudaFree(nullptr));
    OK(cudaMemGetInfo(&after, &total));
    CHECK(after == before);
    // Large memory is poisoned too, page by page.
    OK(cudaMalloc(&data, 200 << 20));
    CHECK(all<unsigned char>(fetch(data + (150 << 20), 100), 0xFB));
    OK(cudaMemset(data + (100 << 20), 1, 64));
    CHECK((fetch(data + (100 << 20), 65)[63] == 1 && fetch(data + (100 << 20), 65)[64] == 0xFB));
    OK(cudaFree(data));
  }
  (void)cudaGetLastError();
  // Host memory.
  int* pinned = nullptr;
  OK(cudaMallocHost(&pinned, bytes));
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, pinned));
  CHECK((attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned));
  int* mapped = nullptr;
  OK(cudaHostGetDevicePointer(&mapped, pinned, 0));
  fill_async(mapped, 12, nullptr);
  OK(cudaDeviceSynchronize());
  CHECK((pinned[0] == 12 && pinned[count - 1] == 12));
  OK(cudaFreeHost(pinned));
  EXPECT(cudaFreeHost(pinned), cudaErrorInvalidValue);
  std::vector<int> own(count, 1);
  OK(cudaPointerGetAttributes(&attributes, own.data()));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  OK(cudaHostRegister(own.data(), bytes, cudaHostRegisterDefault));
  EXPECT(cudaHostRegister(own.data(), bytes, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  fill_async(own.data(), 9, nullptr);
  OK(cudaDeviceSynchronize());
  CHECK(all(own, 9));
  OK(cudaHostUnregister(own.data()));
  EXPECT(cudaHostUnregister(own.data()), cudaErrorHostMemoryNotRegistered);
  // Managed memory.
  int* managed = nullptr;
  OK(cudaMallocManaged(&managed, bytes));
  managed[3] = 1;
  fill_async(managed, 4, nullptr);
  OK(cudaDeviceSynchronize());
  CHECK(managed[3] == 4);
  OK(cudaFree(managed));
  (void)cudaGetLastError();
}

TEST_CASE("the host cannot read device memory") {
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  OK(cudaMemset(data, 0, bytes));
  OK(cudaDeviceSynchronize());
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    volatile int value = *data;  // the host must not be able to do this
    (void)value;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
  OK(cudaFree(data));
}

TEST_CASE("allocations beyond the memory fail") {
  void *a = nullptr, *b = nullptr, *c = nullptr;
  OK(cudaMalloc(&a, std::size_t{1500} << 20));
  EXPECT(cudaMalloc(&b, std::size_t{600} << 20), cudaErrorMemoryAllocation);
  EXPECT(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError(), cudaSuccess);  // not sticky
  OK(cudaMalloc(&b, std::size_t{500} << 20));
  OK(cudaSetDevice(1));  // limits are per device
  OK(cudaMalloc(&c, std::size_t{1500} << 20));
  OK(cudaFree(c));
  OK(cudaSetDevice(0));
  OK(cudaFree(a));
  OK(cudaMalloc(&a, std::size_t{1500} << 20));
  OK(cudaFree(a));
  OK(cudaFree(b));
}

TEST_CASE("pools follow stream order and their access list") {
  cudaStream_t stream, other;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  int* data = nullptr;
  OK(cudaMallocAsync(&data, bytes, stream));
  fill_async(data, 6, stream);
  std::vector<int> host(count);
  OK(cudaMemcpyAsync(host.data(), data, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(all(host, 6));
  OK(cudaFreeAsync(data, stream));
  EXPECT(cudaFreeAsync(data, stream), cudaErrorInvalidValue);
  OK(cudaStreamSynchronize(stream));
  // Many rounds fit, since frees are followed in stream order.
  for (int round = 0; round < 10; ++round) {
    OK(cudaMallocAsync(&data, std::size_t{1500} << 20, stream));
    OK(cudaMemsetAsync(data, round, 4096, stream));
    OK(cudaFreeAsync(data, stream));
  }
  OK(cudaStreamSynchronize(stream));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t pool, standard;
  OK(cudaMemPoolCreate(&pool, &properties));
  OK(cudaDeviceGetDefaultMemPool(&standard, 0));
  std::uint64_t threshold = ~0ull, used = 0;
  OK(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &threshold));
  OK(cudaMallocFromPoolAsync(&data, bytes, pool, stream));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(used >= bytes);
  // A kernel of another device needs the pool's permission.
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, {1}};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  OK(cudaMemPoolSetAccess(pool, &access, 1));
  OK(cudaStreamSynchronize(stream));
  OK(cudaSetDevice(1));
  fill_async(data, 3, nullptr);
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(0));
  CHECK(all(fetch(data, count), 3));
  OK(cudaFreeAsync(data, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolTrimTo(pool, 0));
  OK(cudaMemPoolDestroy(pool));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(other));
  (void)cudaGetLastError();
}

// A queued kernel's memory is freed by a stream that does not wait for it.
TEST_CASE("memory used after it was freed is an error") {
  cudaStream_t stream, other;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  int* data = nullptr;
  OK(cudaMallocAsync(&data, bytes, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaFreeAsync(data, other));
  OK(cudaStreamSynchronize(other));
  fill_async(data, 1, stream);
  EXPECT(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  // Pinned memory, freed before its copy ran.
  OK(cudaSetDevice(1));
  int *pinned = nullptr, *target = nullptr;
  OK(cudaMallocHost(&pinned, bytes));
  OK(cudaMalloc(&target, bytes));
  OK(cudaMemcpyAsync(target, pinned, bytes, cudaMemcpyHostToDevice, cudaStreamPerThread));
  OK(cudaFreeHost(pinned));
  EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_CASE("what is not freed") {
  void* data = nullptr;
  OK(cudaMalloc(&data, 12345));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  cudaEvent_t event;
  OK(cudaEventCreate(&event));
  OK(cudaMallocHost(&data, 777));
}

TEST_CASE("everything is freed") {
  void* data = nullptr;
  OK(cudaMalloc(&data, 12345));
  OK(cudaFree(data));
}

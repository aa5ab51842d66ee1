// What waits where memory is mapped or unmapped (--strict allocation-waits).
#include "gate.hpp"

constexpr std::size_t bytes = 4000;

// Whether a call waits for what its device, or another one, still has to do.
static bool waits(const std::function<void()>& call, int busy = 0) {
  OK(cudaSetDevice(busy));
  const cudaStream_t first = make_stream();
  OK(cudaSetDevice(0));
  const cudaStream_t other = make_stream();
  bool waited = false;
  {
    Gate gate(first);
    waited = waits_for(gate, other, call);
  }
  OK(cudaStreamDestroy(other));
  OK(cudaStreamDestroy(first));
  return waited;
}

TEST_CASE("allocation-waits: what maps or unmaps memory waits for its device") {
  void *data = nullptr, *pinned = nullptr, *managed = nullptr;
  std::vector<char> pageable(4096);
  CHECK(waits([&] { OK(cudaMalloc(&data, bytes)); }));
  CHECK(waits([&] { OK(cudaFree(data)); }));
  CHECK(waits([&] { OK(cudaHostAlloc(&pinned, bytes, cudaHostAllocPortable)); }));
  CHECK(waits([&] { OK(cudaFreeHost(pinned)); }));
  CHECK(waits([&] { OK(cudaMallocHost(&pinned, bytes)); }));
  CHECK(waits([&] { OK(cudaMallocManaged(&managed, bytes)); }));
  CHECK(waits([&] { OK(cudaHostRegister(pageable.data(), pageable.size(), cudaHostRegisterDefault)); }));
  CHECK(waits([&] { OK(cudaHostUnregister(pageable.data())); }));
  CHECK(waits([&] { OK(cudaDeviceEnablePeerAccess(1, 0)); }));
  // Memory of a device concerns that device; memory of the host, all of them.
  CHECK(!waits([&] { OK(cudaMalloc(&data, bytes)); }, 1));
  OK(cudaFree(data));
  CHECK(waits([&] { OK(cudaFreeHost(pinned)); }, 1));
  CHECK(!waits([&] {
    OK(cudaEventDestroy([] {
      cudaEvent_t event = nullptr;
      OK(cudaEventCreate(&event));
      return event;
    }()));
  }));
  OK(cudaFree(managed));
}

TEST_CASE("allocation-waits: a pool waits where it grows and where it gives back") {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  OK(cudaMemPoolCreate(&pool, &properties));
  const cudaStream_t stream = make_stream();
  void* data = nullptr;
  const auto allocate = [&] { OK(cudaMallocFromPoolAsync(&data, bytes, pool, stream)); };
  const auto release = [&] {
    OK(cudaFreeAsync(data, stream));
    OK(cudaStreamSynchronize(stream));
  };
  CHECK(waits(allocate));
  release();
  CHECK(!waits(allocate));  // what the pool has kept
  release();
  CHECK(waits([&] { OK(cudaMemPoolTrimTo(pool, 0)); }));
  CHECK(!waits([&] { OK(cudaMemPoolTrimTo(pool, 0)); }));  // there is nothing to give back
  CHECK(waits(allocate));
  release();
  CHECK(waits([&] { OK(cudaMemPoolDestroy(pool)); }));
  OK(cudaStreamDestroy(stream));
}

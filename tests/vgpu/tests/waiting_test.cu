// What may wait for whom on hardware (--strict lazy-loading,pool-dependencies).
#include "gate.hpp"
#include "kernels.hpp"

TEST_CASE("lazy-loading: a kernel's first launch waits for its device") {
  const cudaStream_t first = make_stream(), second = make_stream(), third = make_stream();
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  fill_async(data, 1, second);
  OK(cudaStreamSynchronize(second));
  {
    Gate gate(first);
    const bool waits = waits_for(gate, third, [&] { fill_async(data, 2, second); });  // loaded before
    CHECK(!waits);
  }
  {
    Gate gate(first);
    const bool waits = waits_for(gate, third, [&] { add<<<4, 256, 0, second>>>(data, count, 1); });
    CHECK(waits);
  }
  CHECK(all(fetch(data, count), 3));
  OK(cudaFree(data));
  for (cudaStream_t stream : {first, second, third}) OK(cudaStreamDestroy(stream));
}

TEST_CASE("lazy-loading: cudaFuncGetAttributes loads a kernel ahead") {
  const cudaStream_t first = make_stream(), second = make_stream(), third = make_stream();
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, fill));
  {
    Gate gate(first);
    const bool waits = waits_for(gate, third, [&] { fill_async(data, 2, second); });
    CHECK(!waits);
  }
  OK(cudaStreamSynchronize(second));
  OK(cudaFree(data));
  for (cudaStream_t stream : {first, second, third}) OK(cudaStreamDestroy(stream));
}

static bool stays_busy(cudaStream_t stream) {
  for (int polls = 0; polls < 100; ++polls)
    if (cudaStreamQuery(stream) == cudaSuccess) return false;
  return true;
}

// Whether an allocation on one stream waits for what another has yet to free.
static bool allocation_waits(cudaMemPool_t pool) {
  const cudaStream_t first = make_stream(), second = make_stream();
  int *old = nullptr, *fresh = nullptr;
  OK(cudaMallocFromPoolAsync(&old, bytes, pool, first));
  Gate* const gate = new Gate(first);  // cudafe++ does not end where it is a local variable
  const cudaError_t freed = cudaFreeAsync(old, first);
  const cudaError_t allocated = cudaMallocFromPoolAsync(&fresh, bytes, pool, second);
  const bool waits = stays_busy(second);
  delete gate;
  OK(freed);
  OK(allocated);
  OK(cudaStreamSynchronize(first));
  OK(cudaFreeAsync(fresh, second));
  OK(cudaStreamSynchronize(second));
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
  (void)cudaGetLastError();
  return waits;
}

TEST_CASE("pool-dependencies: an allocation waits for another stream's free, where its pool allows that") {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  OK(cudaMemPoolCreate(&pool, &properties));
  CHECK(allocation_waits(pool));
  int off = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &off));
  CHECK(!allocation_waits(pool));
  OK(cudaMemPoolDestroy(pool));
}

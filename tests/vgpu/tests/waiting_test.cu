// What may wait for whom on hardware (--strict lazy-loading,pool-dependencies).
#include <atomic>
#include <functional>
#include <thread>

#include "check.hpp"
#include "kernels.hpp"

static cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// A stream stands still there until `release`. Its own thread waits for the stream, so that the host function
// blocks nobody else.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    OK(cudaLaunchHostFunc(stream, stand, this));
    waiter_ = std::thread([stream] { cudaStreamSynchronize(stream); });
    while (!reached_) std::this_thread::yield();
  }
  ~Gate() {
    release();
    waiter_.join();
  }
  void release() { open_ = true; }
  bool is_open() const { return open_; }

 private:
  static void stand(void* self) {
    Gate& gate = *static_cast<Gate*>(self);
    gate.reached_ = true;
    while (!gate.open_) std::this_thread::yield();
  }

  std::atomic<bool> reached_{false}, open_{false};
  std::thread waiter_;
};

// Opens the gate when the caller has had time to pass a call that does not wait. Says whether it was open
// when the call returned.
static bool waits_for(Gate& gate, cudaStream_t other, const std::function<void()>& call) {
  std::atomic<bool> returned{false};
  std::thread later([&] {
    for (int polls = 0; !returned && polls < 1000; ++polls) {
      cudaStreamQuery(other);
      std::this_thread::yield();
    }
    gate.release();
  });
  call();
  const bool open = gate.is_open();
  returned = true;
  later.join();
  return open;
}

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

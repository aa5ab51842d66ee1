// Streams and events: what is ordered, when it runs.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "check.hpp"
#include "kernels.hpp"

// Work goes on although no thread waits in a CUDA call: a host function wakes the program.
TEST_CASE("work goes on although nobody waits for it") {
  int* x;
  cudaStream_t stream;
  OK(cudaMalloc(&x, 4000));
  OK(cudaStreamCreate(&stream));
  fill<<<4, 256, 0, stream>>>(x, 1000, 1);
  static std::mutex mutex;
  static std::condition_variable woken;
  static bool called = false;
  OK(cudaLaunchHostFunc(
      stream,
      [](void*) {
        std::lock_guard<std::mutex> guard(mutex);
        called = true;
        woken.notify_all();
      },
      nullptr));
  std::unique_lock<std::mutex> lock(mutex);
  CHECK(woken.wait_for(lock, std::chrono::seconds(10), [] { return called; }));
  lock.unlock();
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(x));
}

// After main, and after what the first launch made for itself may have been destroyed.
TEST_CASE("a kernel's first run may be the program's end") {
  static int* data;
  static cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaMalloc(&data, bytes));
  std::atexit([] {
    int last = 0;
    const cudaError_t ran = cudaStreamSynchronize(stream);
    const cudaError_t copied = cudaMemcpy(&last, data + count - 1, sizeof last, cudaMemcpyDeviceToHost);
    std::printf("at the end: %s, %s, %d\n", cudaGetErrorName(ran), cudaGetErrorName(copied), last);
  });
  fill_async(data, 7, stream);
}

TEST_CASE("nothing runs before somebody waits or asks") {
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  static std::atomic<int> ran{0};
  auto function = [](void* data) { ran += *static_cast<int*>(data); };
  static int one = 1;
  OK(cudaLaunchHostFunc(stream, function, &one));
  OK(cudaLaunchHostFunc(stream, function, &one));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(ran == 0);  // nothing runs before somebody waits
  OK(cudaStreamSynchronize(stream));
  CHECK(ran == 2);
  OK(cudaLaunchHostFunc(stream, function, &one));
  int polls = 0;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++polls;  // queries make progress
  CHECK((ran == 3 && polls < 100));
  (void)cudaGetLastError();
  // CUDA calls from host functions are refused.
  static cudaError_t inside = cudaSuccess;
  OK(cudaLaunchHostFunc(
      stream,
      [](void*) {
        void* p;
        inside = cudaMalloc(&p, 4);
      },
      nullptr));
  OK(cudaStreamAddCallback(
      stream, [](cudaStream_t, cudaError_t status, void*) { ran += status == cudaSuccess ? 10 : 0; }, nullptr,
      0));
  OK(cudaStreamSynchronize(stream));
  CHECK((inside == cudaErrorNotPermitted && ran == 13));
  OK(cudaStreamDestroy(stream));
  EXPECT(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

// Prints whether the consumer saw the producer's data; with "wait" it must.
static void producer_consumer(bool wait) {
  cudaStream_t first, second;
  OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int *a = nullptr, *b = nullptr;
  OK(cudaMalloc(&a, bytes));
  OK(cudaMalloc(&b, bytes));
  fill_async(a, 1, first);
  OK(cudaStreamSynchronize(first));
  fill_async(a, 2, first);
  OK(cudaEventRecord(event, first));
  if (wait) OK(cudaStreamWaitEvent(second, event, 0));
  copy<<<4, 256, 0, second>>>(b, a, count);
  OK(cudaStreamSynchronize(second));
  OK(cudaStreamSynchronize(first));
  const int seen = fetch(b, 1)[0];
  std::printf("consumer saw %d\n", seen);
  if (wait) CHECK(seen == 2);
  OK(cudaFree(a));
  OK(cudaFree(b));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
}

TEST_CASE("a consumer that waits sees the data") { producer_consumer(true); }

TEST_CASE("a consumer that does not wait may see old data") { producer_consumer(false); }

TEST_CASE("events order streams and measure time") {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  cudaEvent_t start, stop, untimed;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  float time = -1;
  OK(cudaEventQuery(start));  // never recorded: complete
  EXPECT(cudaEventElapsedTime(&time, start, stop), cudaErrorInvalidResourceHandle);
  OK(cudaEventRecord(start, stream));
  fill_async(data, 1, stream);
  OK(cudaEventRecord(stop, stream));
  EXPECT(cudaEventElapsedTime(&time, start, stop), cudaErrorNotReady);
  OK(cudaEventSynchronize(stop));
  OK(cudaEventElapsedTime(&time, start, stop));
  CHECK(time > 0);
  OK(cudaEventRecord(untimed, stream));
  OK(cudaEventSynchronize(untimed));
  EXPECT(cudaEventElapsedTime(&time, start, untimed), cudaErrorInvalidResourceHandle);
  int polls = 0;
  fill_async(data, 2, stream);
  OK(cudaEventRecord(stop, stream));
  while (cudaEventQuery(stop) == cudaErrorNotReady) ++polls;
  CHECK(polls < 100);
  // Across devices: the event of device 0 orders a stream of device 1; recording it there is an error.
  OK(cudaSetDevice(1));
  cudaStream_t other;
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  EXPECT(cudaEventRecord(stop, other), cudaErrorInvalidResourceHandle);
  int* there = nullptr;
  OK(cudaMalloc(&there, bytes));
  OK(cudaSetDevice(0));
  fill_async(data, 77, stream);
  OK(cudaEventRecord(stop, stream));
  OK(cudaSetDevice(1));
  OK(cudaStreamWaitEvent(other, stop, 0));
  OK(cudaMemcpyPeerAsync(there, 1, data, 0, bytes, other));
  OK(cudaStreamSynchronize(other));
  CHECK(all(fetch(there, count), 77));
  // A launch into another device's stream is refused.
  OK(cudaSetDevice(0));
  fill_async(data, 1, other);
  EXPECT(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  OK(cudaEventDestroy(start));
  EXPECT(cudaEventRecord(start, stream), cudaErrorInvalidResourceHandle);
  OK(cudaEventDestroy(stop));
  OK(cudaEventDestroy(untimed));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(other));
  OK(cudaFree(data));
  OK(cudaFree(there));
  (void)cudaGetLastError();
}

TEST_CASE("the default stream orders blocking streams") {
  int *a = nullptr, *b = nullptr;
  OK(cudaMalloc(&a, bytes));
  OK(cudaMalloc(&b, bytes));
  cudaStream_t blocking;
  OK(cudaStreamCreate(&blocking));
  for (int round = 0; round < 20; ++round) {
    // blocking -> default -> blocking are ordered without events.
    fill_async(a, round, blocking);
    add<<<4, 256>>>(a, count, 100);
    copy<<<4, 256, 0, blocking>>>(b, a, count);
    OK(cudaStreamSynchronize(blocking));
    CHECK(all(fetch(b, count), round + 100));
  }
  fill_async(a, 1, cudaStreamPerThread);
  add<<<4, 256, 0, cudaStreamLegacy>>>(a, count, 1);
  add<<<4, 256, 0, cudaStreamPerThread>>>(a, count, 1);
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  CHECK(all(fetch(a, count), 3));
  OK(cudaStreamDestroy(blocking));
  OK(cudaFree(a));
  OK(cudaFree(b));
}

// With a non-blocking stream the order is open: prints what was seen.
TEST_CASE("a non-blocking stream is not ordered by the default stream") {
  int* a = nullptr;
  OK(cudaMalloc(&a, bytes));
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  fill_async(a, 1, nullptr);
  add<<<4, 256, 0, stream>>>(a, count, 100);
  OK(cudaDeviceSynchronize());
  std::printf("saw %d\n", fetch(a, 1)[0]);
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(a));
}

TEST_CASE("device, last error and default stream belong to the thread") {
  // Current device, last error and per-thread streams belong to the thread.
  OK(cudaSetDevice(2));
  std::vector<std::thread> list;
  std::atomic<int> good{0};
  for (int index = 0; index < 4; ++index)
    list.emplace_back([index, &good] {
      int device = -1;
      cudaGetDevice(&device);
      const bool fresh = device == 0;
      cudaSetDevice(index);
      int* data = nullptr;
      bool fine = cudaMalloc(&data, bytes) == cudaSuccess;
      for (int round = 0; round < 20; ++round) {
        fill_async(data, round, cudaStreamPerThread);
        add<<<4, 256, 0, cudaStreamPerThread>>>(data, count, index);
        std::vector<int> host(count);
        fine = fine &&
               cudaMemcpyAsync(host.data(), data, bytes, cudaMemcpyDeviceToHost, cudaStreamPerThread) ==
                   cudaSuccess &&
               all(host, round + index);
      }
      if (index == 0) cudaFree(&device);  // an error of this thread
      const cudaError_t last = cudaGetLastError();
      fine = fine && last == (index == 0 ? cudaErrorInvalidValue : cudaSuccess);
      cudaFree(data);
      good += fresh && fine;
    });
  for (auto& thread : list) thread.join();
  CHECK(good == 4);
  int device = -1;
  OK(cudaGetDevice(&device));
  CHECK(device == 2);
  EXPECT(cudaGetLastError(), cudaSuccess);
}

TEST_CASE("handle-reuse: a new stream or event has the address of a destroyed one, and nothing else of it") {
  cudaStream_t first = nullptr, second = nullptr, third = nullptr;
  cudaEvent_t before = nullptr, after = nullptr;
  int* x = nullptr;
  OK(cudaMalloc(&x, bytes));
  OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  OK(cudaEventCreate(&before));
  fill_async(x, 1, first);
  OK(cudaEventRecord(before, first));
  OK(cudaStreamDestroy(first));  // with work that is still to run
  OK(cudaEventDestroy(before));
  OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  OK(cudaEventCreate(&after));
  CHECK(second == first);
  CHECK(after == before);
  unsigned long long id = 0, other = 0;
  OK(cudaStreamGetId(second, &id));
  OK(cudaStreamQuery(second));
  OK(cudaEventQuery(after));
  OK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
  OK(cudaStreamGetId(third, &other));
  CHECK(third != second);
  CHECK(other != id);
  OK(cudaDeviceSynchronize());
  CHECK(all(fetch(x, count), 1));
  OK(cudaStreamDestroy(second));
  OK(cudaStreamDestroy(third));
  OK(cudaEventDestroy(after));
  OK(cudaFree(x));
}

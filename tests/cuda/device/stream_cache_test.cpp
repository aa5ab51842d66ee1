#include "device/stream_cache.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "device/cuda_memory.hpp"
#include "native.hpp"
#include "support/call_hook.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

/// Empties what other tests have left on streams. Skips the test where the environment has switched the cache
/// off.
void empty_cache() {
  const char* const text = std::getenv(cuda::StreamCache::kVariable);
  if (text != nullptr && std::string(text) == "0") SKIP("the cache is switched off");
  trim_memory(TestBackend::device());
}

/// Counts the pool's calls.
struct PoolCalls {
  std::atomic<int> num_allocations{0}, num_frees{0};
  CallHook hook{[this](std::string_view name, bool is_over) {
    num_allocations += is_over && (name == "cudaMallocFromPoolAsync" || name == "cudaMalloc");
    num_frees += is_over && name == "cudaFreeAsync";
    return 0;
  }};
};

Tensor tensor_of(std::int64_t count) { return Tensor::empty({count}, DType::f32, TestBackend::device()); }
void* place_of(const Tensor& tensor) { return tensor.view().data; }

constexpr std::int64_t kSixMiB = 6 << 18;  // elements

}  // namespace

TEST_CASE("short memory that a stream has freed serves its next allocation of that size", "[cuda]") {
  empty_cache();
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Tensor first = tensor_of(1000);
  void* const place = place_of(first);
  first = Tensor();
  const PoolCalls calls;
  for (int i = 0; i < 3; ++i) CHECK(place_of(tensor_of(1000)) == place);
  CHECK(place_of(tensor_of(1024)) == place);  // in steps of 512 bytes
  CHECK(calls.num_allocations == 0);
  CHECK(place_of(tensor_of(1025)) != place);
  CHECK(place_of(tensor_of(kSixMiB)) != nullptr);  // long memory is the pool's
  CHECK(calls.num_allocations == 2);
  CHECK(calls.num_frees <= 1);
}

TEST_CASE("memory that another stream has freed is the pool's to give", "[cuda]") {
  empty_cache();
  const Stream one(TestBackend::device()), other(TestBackend::device());
  void* place = nullptr;
  {
    const StreamScope scope(one);
    place = place_of(tensor_of(1000));
  }
  const PoolCalls calls;
  {
    const StreamScope scope(other);
    CHECK(place_of(tensor_of(1000)) != place);
  }
  CHECK(calls.num_allocations == 1);
  const StreamScope scope(one);
  CHECK(place_of(tensor_of(1000)) == place);
}

TEST_CASE("an engine's stream, and one in a capture, are not served from what streams have freed", "[cuda]") {
  empty_cache();
  cudaStream_t engine = nullptr;
  const Device device = TestBackend::device();
  TestBackend::open();
  REQUIRE(cudaStreamCreateWithFlags(&engine, cudaStreamNonBlocking) == cudaSuccess);
  {
    const StreamScope scope(Stream::borrow(engine, device));
    static_cast<void>(tensor_of(1000));
    const PoolCalls calls;
    static_cast<void>(tensor_of(1000));
    CHECK(calls.num_allocations + calls.num_frees >= 1);
  }
  REQUIRE(cudaStreamSynchronize(engine) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(engine) == cudaSuccess);

  const Stream stream(device);
  const StreamScope scope(stream);
  void* const place = place_of(tensor_of(1000));
  {
    Capture capture({stream});
    CHECK(place_of(tensor_of(1000)) != place);
    capture.end();
  }
  stream.synchronize();
  trim_memory(device);
}

TEST_CASE("statistics count what streams have freed as cached, and trimming gives it back", "[cuda]") {
  empty_cache();
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  const MemoryStats before = memory_stats(device);
  {
    const Tensor held = tensor_of(1000);
    CHECK(memory_stats(device).in_use_bytes == before.in_use_bytes + 4000);
  }
  CHECK(memory_stats(device).in_use_bytes == before.in_use_bytes);
  static_cast<void>(tensor_of(1000));
  CHECK(memory_stats(device).in_use_bytes == before.in_use_bytes);
  CHECK(memory_stats(device).cached_bytes >= 4096);
  const PoolCalls calls;
  trim_memory(device);
  CHECK(calls.num_frees >= 1);
}

TEST_CASE("what streams have freed is given back before an allocation fails", "[cuda]") {
  empty_cache();
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  static_cast<void>(tensor_of(1000));
  std::atomic<int> num_allocations{0}, num_frees{0};
  const CallHook hook([&](std::string_view name, bool is_over) {
    num_frees += name == "cudaFreeAsync" && is_over;
    return name == "cudaMallocFromPoolAsync" && !is_over && num_allocations++ == 0
               ? static_cast<int>(cudaErrorMemoryAllocation)
               : 0;
  });
  static_cast<void>(tensor_of(kSixMiB));
  CHECK(num_allocations == 2);
  CHECK(num_frees >= 2);  // and the new tensor
}

TEST_CASE("the memory that streams have freed is limited", "[cuda]") {
  const Stream stream(TestBackend::device());
  const cudaStream_t native = cuda::native(stream.handle());  // which stays the library's alone
  int memory[4];
  cuda::StreamCache cache(1024), off(0);
  CHECK(cache.rounded(1) == 512);
  CHECK(cache.rounded(512) == 512);
  CHECK(cache.rounded(cuda::StreamCache::kLargest + 1) == cuda::StreamCache::kLargest + 1);
  CHECK(off.rounded(1) == 1);
  CHECK(!off.keep(&memory[0], 512, native));
  CHECK(cache.keep(&memory[0], 512, native));
  CHECK(cache.keep(&memory[1], 500, native));
  CHECK(!cache.keep(&memory[2], 512, native));
  CHECK(cache.serves(native, 1024));
  CHECK(!cache.serves(native, 1025));  // never has room for it
  CHECK(cache.take(native, 513) == nullptr);
  CHECK(cache.take(native, 512) == &memory[1]);
  CHECK(cache.keep(&memory[2], 1, native));
  std::size_t num_bytes = 0;
  cache.drain([&](void*, std::size_t size_bytes, cudaStream_t) { num_bytes += size_bytes; });
  CHECK(num_bytes == 1024);
  CHECK(cache.take(native, 512) == nullptr);
}

TEST_CASE("a full cache gives way to the sizes that are in use now", "[cuda]") {
  empty_cache();
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  {
    std::vector<Tensor> old;
    for (int i = 0; i < 70; ++i) old.push_back(tensor_of(1 << 18));  // 70 MiB
  }
  for (int i = 0; i < 20; ++i) static_cast<void>(tensor_of(200'000));
  const PoolCalls calls;
  static_cast<void>(tensor_of(200'000));
  CHECK(calls.num_allocations == 0);
  trim_memory(TestBackend::device());
}

TEST_CASE("a number of bytes that the environment does not tell is refused", "[cuda]") {
  TestBackend::open();
  const char* const text = std::getenv(cuda::StreamCache::kVariable);
  const std::string before = text == nullptr ? "" : text;
  ::setenv(cuda::StreamCache::kVariable, "1 MiB", 1);
  REQUIRE_THROWS_MATCHES(cuda::CudaMemory(0, TestBackend::device()), InvalidArgument,
                         says("LOCKSTEP_STREAM_CACHE_BYTES is \"1 MiB\"", "Set it to a number of bytes"));
  before.empty() ? ::unsetenv(cuda::StreamCache::kVariable)
                 : ::setenv(cuda::StreamCache::kVariable, before.c_str(), 1);
}

TEST_CASE("threads may allocate and free on one stream", "[cuda]") {
  const Stream stream(TestBackend::device());
  std::vector<std::jthread> threads;
  std::atomic<int> num_wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const StreamScope scope(stream);
      for (int i = 0; i < 20; ++i) {
        const Tensor mine = Tensor::full({64}, static_cast<float>(t), DType::f32, TestBackend::device());
        num_wrong += mine.to_vector<float>() != std::vector<float>(64, static_cast<float>(t));
      }
    });
  threads.clear();
  CHECK(num_wrong == 0);
}

}  // namespace lockstep::test

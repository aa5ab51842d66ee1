// CUB's device-wide algorithms and asynchronous copies, end to end.
#include <algorithm>
#include <cmath>
#include <cub/cub.cuh>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <numeric>
#include <random>
#include <vector>

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.hpp"

template <class T>
struct Device {
  T* p = nullptr;
  std::size_t n;
  explicit Device(std::size_t count) : n(count) {
    cudaMalloc(reinterpret_cast<void**>(&p), std::max<std::size_t>(1, count) * sizeof(T));
  }
  explicit Device(const std::vector<T>& v) : Device(v.size()) {
    cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice);
  }
  Device(const Device&) = delete;
  ~Device() { cudaFree(p); }
  std::vector<T> get() const {
    std::vector<T> v(n);
    cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost);
    return v;
  }
};
template <class F>
void twice(F f) {  // CUB's two-call form
  std::size_t bytes = 0;
  REQUIRE(f(nullptr, bytes) == cudaSuccess);
  Device<char> storage(bytes);
  CHECK(f(storage.p, bytes) == cudaSuccess);
}
std::mt19937 g_random(3);

struct Twice {
  template <class T>
  __host__ __device__ T operator()(T a) const {
    return static_cast<T>(a + a);
  }
};
struct Plus {
  template <class T>
  __host__ __device__ T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Odd {
  template <class T>
  __host__ __device__ bool operator()(T a) const {
    return static_cast<long long>(a) & 1;
  }
};
struct Increment {
  template <class T>
  __host__ __device__ void operator()(T& a) const {
    a = static_cast<T>(a + T(1));
  }
};

template <class T>
void reduce(std::size_t n) {
  std::vector<T> v(n);
  for (T& x : v) x = static_cast<T>(static_cast<int>(g_random() % 7) - (std::is_signed_v<T> ? 3 : 0));
  double expected = 0, most = n ? -1e9 : 0;
  for (T x : v) expected += static_cast<double>(x), most = std::max(most, static_cast<double>(x));
  Device<T> in(v), out(1);
  twice([&](void* p, std::size_t& b) {
    return cub::DeviceReduce::Sum(p, b, in.p, out.p, static_cast<int>(n));
  });
  if (std::fabs(expected) < 1000 || sizeof(T) >= 4)
    CHECK(static_cast<double>(out.get()[0]) == static_cast<double>(static_cast<T>(expected)));
  if (n) {
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceReduce::Max(p, b, in.p, out.p, static_cast<int>(n));
    });
    CHECK(static_cast<double>(out.get()[0]) == most);
  }
}
template <class H>
void reduce_half(std::size_t n) {
  std::vector<H> v(n);
  double expected = 0;
  for (H& x : v) {
    float f = static_cast<float>(static_cast<int>(g_random() % 5) - 2) * 0.5f;
    x = static_cast<H>(f);
    expected += f;
  }
  Device<H> in(v), out(1);
  twice([&](void* p, std::size_t& b) {
    return cub::DeviceReduce::Sum(p, b, in.p, out.p, static_cast<int>(n));
  });
  CHECK(std::fabs(static_cast<float>(out.get()[0]) - expected) <= 2 + std::fabs(expected) * 0.02);
  twice([&](void* p, std::size_t& b) {
    return cub::DeviceReduce::Max(p, b, in.p, out.p, static_cast<int>(n));
  });
  CHECK(static_cast<float>(out.get()[0]) == 1.0f);
}
template <class T>
void others(std::size_t n) {
  std::vector<T> v(n);
  for (T& x : v) x = static_cast<T>(g_random() % 100);
  Device<T> in(v), out(n), out2(n);
  {  // transform and for-each
    CHECK(cub::DeviceTransform::Transform(in.p, out.p, static_cast<int>(n), Twice{}) == cudaSuccess);
    CHECK(cub::DeviceTransform::Transform(cuda::std::make_tuple(in.p, out.p), out2.p, static_cast<int>(n),
                                          Plus{}) == cudaSuccess);
    CHECK(cub::DeviceFor::ForEachN(out2.p, static_cast<int>(n), Increment{}) == cudaSuccess);
    auto r = out2.get();
    bool same = true;
    for (std::size_t i = 0; i < n; ++i)
      same &= r[i] == static_cast<T>(static_cast<T>(v[i] + static_cast<T>(v[i] + v[i])) + T(1));
    CHECK(same);
  }
  {  // scans
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceScan::InclusiveSum(p, b, in.p, out.p, static_cast<int>(n));
    });
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceScan::ExclusiveSum(p, b, in.p, out2.p, static_cast<int>(n));
    });
    auto a = out.get(), b = out2.get();
    T run = 0;
    bool same = true;
    for (std::size_t i = 0; i < n; ++i) {
      same &= b[i] == run;
      run = static_cast<T>(run + v[i]);
      same &= a[i] == run;
    }
    CHECK(same);
  }
  {  // selection
    Device<int> count(1);
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceSelect::If(p, b, in.p, out.p, count.p, static_cast<int>(n), Odd{});
    });
    std::vector<T> e;
    for (T x : v)
      if (Odd{}(x)) e.push_back(x);
    auto r = out.get();
    CHECK((count.get()[0] == static_cast<int>(e.size()) && std::equal(e.begin(), e.end(), r.begin())));
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceSelect::Unique(p, b, in.p, out.p, count.p, static_cast<int>(n));
    });
    e = v;
    e.erase(std::unique(e.begin(), e.end()), e.end());
    r = out.get();
    CHECK((count.get()[0] == static_cast<int>(e.size()) && std::equal(e.begin(), e.end(), r.begin())));
  }
  {  // segments
    const int segments = 37;
    std::vector<int> offsets(segments + 1);
    for (int i = 0; i <= segments; ++i) offsets[i] = static_cast<int>(n * i / segments);
    Device<int> o(offsets);
    Device<T> sums(segments);
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceSegmentedReduce::Sum(p, b, in.p, sums.p, segments, o.p, o.p + 1);
    });
    auto r = sums.get();
    bool same = true;
    for (int i = 0; i < segments; ++i) {
      double s = 0;
      for (int k = offsets[i]; k < offsets[i + 1]; ++k) s += static_cast<double>(v[k]);
      same &= r[i] == static_cast<T>(static_cast<long long>(s));
    }
    CHECK(same);
  }
  {  // histogram
    Device<int> bins(10);
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceHistogram::HistogramEven(p, b, in.p, bins.p, 11, T(0), T(100), static_cast<int>(n));
    });
    std::vector<int> e(10, 0);
    for (T x : v) ++e[static_cast<int>(x) / 10];
    CHECK(bins.get() == e);
  }
  {  // radix sort
    twice([&](void* p, std::size_t& b) {
      return cub::DeviceRadixSort::SortKeys(p, b, in.p, out.p, static_cast<int>(n));
    });
    auto e = v;
    std::sort(e.begin(), e.end());
    CHECK(out.get() == e);
  }
}

// ---- asynchronous copies ----
namespace cg = cooperative_groups;
__global__ void copy_pipeline(const float* in, float* out, int tiles) {
  __shared__ alignas(16) float buffer[2][128];
  auto pipe = cuda::make_pipeline();
  auto fetch = [&](int t) {
    pipe.producer_acquire();
    cuda::memcpy_async(&buffer[t % 2][threadIdx.x], in + t * 128 + threadIdx.x, sizeof(float), pipe);
    pipe.producer_commit();
  };
  fetch(0);
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) fetch(t + 1);
    if (t + 1 < tiles)
      cuda::pipeline_consumer_wait_prior<1>(pipe);
    else
      cuda::pipeline_consumer_wait_prior<0>(pipe);
    __syncthreads();
    out[t * 128 + threadIdx.x] = buffer[t % 2][127 - threadIdx.x] * 2;
    __syncthreads();
    pipe.consumer_release();
  }
}
__global__ void copy_group(const int4* in, int4* out) {
  __shared__ int4 buffer[64];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, buffer, in + blockIdx.x * 64, sizeof(buffer));
  cg::wait(block);
  out[blockIdx.x * 64 + threadIdx.x] = buffer[63 - threadIdx.x];
}
__global__ void barriers(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int s[96];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int round = 0; round < 3; ++round) {
    s[threadIdx.x] = in[threadIdx.x] + round;
    auto token = bar.arrive();
    bar.wait(std::move(token));
    int v = s[(threadIdx.x + 40) % 96];
    bar.arrive_and_wait();
    out[round * 96 + threadIdx.x] = v;
  }
}
__global__ void named_barriers(int* out) {  // warps 0 and 1 make, warps 2 and 3 take
  __shared__ int s[64];
  int i = threadIdx.x;
  if (i < 64) {
    s[i] = i * 3;
    asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    out[i - 64] = s[127 - i];
  }
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#include <cuda/ptx>
__global__ void bulk(const float* in, float* out) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float buffer[256];
  __shared__ alignas(8) uint64_t bar;
  namespace ptx = cuda::ptx;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_proxy_async(ptx::space_shared);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, buffer, in + blockIdx.x * 256, sizeof(buffer),
                       &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(buffer));
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {
  }
  buffer[threadIdx.x] += 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + blockIdx.x * 256, buffer, sizeof(buffer));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
#endif
}
#else
__global__ void bulk(const float*, float*) {}
#endif

TEST_CASE("CUB reduces every type") {
  for (std::size_t n : {0u, 1u, 1000u, 100000u}) {
    reduce<float>(n);
    reduce<double>(n);
    reduce<int>(n);
    reduce<long long>(n);
    reduce<unsigned char>(n);
    reduce<short>(n);
  }
  reduce_half<__half>(5000);
  reduce_half<__nv_bfloat16>(5000);
  reduce_half<__half>(50000);
}

TEST_CASE("CUB scans, selects, sorts and counts") {
  for (std::size_t n : {1000u, 70001u}) {
    others<float>(n);
    others<int>(n);
    others<unsigned long long>(n);
  }
}

TEST_CASE("kernels copy asynchronously and meet at barriers") {
  std::vector<float> v(1280);
  for (float& x : v) x = static_cast<float>(g_random() % 1000);
  Device<float> in(v), out(v.size());
  copy_pipeline<<<1, 128>>>(in.p, out.p, 10);
  auto r = out.get();
  bool same = true;
  for (int i = 0; i < 1280; ++i) same &= r[i] == v[i / 128 * 128 + 127 - i % 128] * 2;
  CHECK(same);
  std::vector<int4> v4(128);
  for (int i = 0; i < 128; ++i) v4[i] = make_int4(i, 2 * i, 3 * i, 4 * i);
  Device<int4> in4(v4), out4(128);
  copy_group<<<2, 64>>>(in4.p, out4.p);
  auto r4 = out4.get();
  same = true;
  for (int i = 0; i < 128; ++i) same &= r4[i].w == 4 * (i / 64 * 64 + 63 - i % 64);
  CHECK(same);
  std::vector<int> w(96);
  std::iota(w.begin(), w.end(), 5);
  Device<int> inb(w), outb(3 * 96), outn(64);
  barriers<<<1, 96>>>(inb.p, outb.p);
  auto rb = outb.get();
  same = true;
  for (int i = 0; i < 3 * 96; ++i) same &= rb[i] == w[(i % 96 + 40) % 96] + i / 96;
  CHECK(same);
  named_barriers<<<1, 128>>>(outn.p);
  auto rn = outn.get();
  same = true;
  for (int i = 0; i < 64; ++i) same &= rn[i] == (63 - i) * 3;
  CHECK(same);
  if (VGPU_TEST_SM >= 90) {
    bulk<<<5, 256>>>(in.p, out.p);
    r = out.get();
    same = true;
    for (int i = 0; i < 1280; ++i) same &= r[i] == v[i] + 1;
    CHECK(same);
  }
}

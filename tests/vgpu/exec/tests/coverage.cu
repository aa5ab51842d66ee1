// Instantiates CUB's and Thrust's device-wide algorithms over many types; only its PTX is looked at.
// VGPU_ALGORITHM picks one, as the PTX of all together would take minutes to compile.
#include <cub/cub.cuh>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <thrust/copy.h>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>

struct Plus {
  template <class A, class B>
  __host__ __device__ auto operator()(A a, B b) const {
    return A(a + b);
  }
};
struct Twice {
  template <class A>
  __host__ __device__ A operator()(A a) const {
    return A(a + a);
  }
};
struct Increment {
  template <class A>
  __host__ __device__ void operator()(A& a) const {
    a = A(a + a);
  }
};
struct Positive {
  template <class A>
  __host__ __device__ bool operator()(A a) const {
    return a > A(0);
  }
};
struct Store {
  int* o;
  template <class A>
  __host__ __device__ void operator()(A a) const {
    if (a > A(100)) *o = 1;
  }
};

template <class T>
void all(T* in, T* out, int n, int* offsets, int segments, int* count) {
  void* p = nullptr;
  std::size_t b = 0;
#if VGPU_ALGORITHM == 0
  cub::DeviceReduce::Sum(p, b, in, out, n);
  cub::DeviceReduce::Max(p, b, in, out, n);
  cub::DeviceReduce::Min(p, b, in, out, n);
  cub::DeviceReduce::Reduce(p, b, in, out, n, Plus{}, T{});
  cub::DeviceReduce::TransformReduce(p, b, in, out, n, Plus{}, Twice{}, T{});
  cub::DeviceReduce::ArgMax(p, b, in, out, (cuda::std::int64_t*)offsets, n);
#elif VGPU_ALGORITHM == 1
  cub::DeviceSegmentedReduce::Sum(p, b, in, out, segments, offsets, offsets + 1);
  cub::DeviceSegmentedReduce::Max(p, b, in, out, segments, offsets, offsets + 1);
  cub::DeviceSegmentedReduce::ArgMin(p, b, in, (cub::KeyValuePair<int, T>*)out, segments, offsets,
                                     offsets + 1);
#elif VGPU_ALGORITHM == 2
  cub::DeviceTransform::Transform(cuda::std::make_tuple(in, in + 5), out, n, Plus{});
  cub::DeviceTransform::Transform(in, out, n, Twice{});
  cub::DeviceFor::ForEachN(in, n, Increment{});
  cub::DeviceFor::ForEachCopyN(in, n, Store{count});
  cub::DeviceFor::Bulk(n, Store{count});
#elif VGPU_ALGORITHM == 3
  cub::DeviceScan::InclusiveSum(p, b, in, out, n);
  cub::DeviceScan::ExclusiveSum(p, b, in, out, n);
#elif VGPU_ALGORITHM == 4
  cub::DeviceSelect::If(p, b, in, out, count, n, Positive{});
  cub::DeviceSelect::Flagged(p, b, in, offsets, out, count, n);
  cub::DeviceSelect::Unique(p, b, in, out, count, n);
#elif VGPU_ALGORITHM == 5
  cub::DeviceHistogram::HistogramEven(p, b, in, count, 33, T(0), T(64), n);
#elif VGPU_ALGORITHM == 6
  auto policy = thrust::cuda::par_nosync;
  thrust::transform(policy, in, in + n, out, Twice{});
  thrust::copy(policy, in, in + n, out);
  thrust::fill(policy, out, out + n, T{});
  *out = thrust::reduce(policy, in, in + n, T{}, Plus{});
#endif
}
#define INSTANTIATE(T) template void all<T>(T*, T*, int, int*, int, int*);
INSTANTIATE(float)
INSTANTIATE(double) INSTANTIATE(int) INSTANTIATE(unsigned) INSTANTIATE(long long)
    INSTANTIATE(unsigned long long) INSTANTIATE(short) INSTANTIATE(unsigned short) INSTANTIATE(signed char)
        INSTANTIATE(unsigned char)
#if VGPU_ALGORITHM != 5
            INSTANTIATE(__half) INSTANTIATE(__nv_bfloat16)
#endif

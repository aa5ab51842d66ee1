// Kernels that the tests run and check against the host.
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void

KERNEL saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

KERNEL reduce_grid(const float* x, float* out, long long n) {
  float s = 0;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) s += x[i];
  using R = cub::BlockReduce<float, 256>;
  __shared__ typename R::TempStorage t;
  s = R(t).Sum(s);
  if (threadIdx.x == 0) out[blockIdx.x] = s;
}
KERNEL reduce_vec4(const float4* x, double* out, int n4) {
  float s = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n4; i += gridDim.x * 128) {
    float4 v = x[i];
    s += (v.x + v.y) + (v.z + v.w);
  }
  using R = cub::BlockReduce<double, 128, cub::BLOCK_REDUCE_RAKING>;
  __shared__ typename R::TempStorage t;
  double d = R(t).Sum(double(s));
  if (threadIdx.x == 0) atomicAdd(out, d);
}
KERNEL warp_reduce(const int* x, int* out, int* smaller) {
  using W = cub::WarpReduce<int>;
  using W16 = cub::WarpReduce<int, 16>;
  __shared__ typename W::TempStorage t[4];
  __shared__ typename W16::TempStorage t16[8];
  int i = blockIdx.x * 128 + threadIdx.x;
  int s = W(t[threadIdx.x / 32]).Sum(x[i]);
  int m = W16(t16[threadIdx.x / 16]).Reduce(x[i], cuda::maximum<>{});
  if (threadIdx.x % 32 == 0) out[i / 32] = s;
  if (threadIdx.x % 16 == 0) smaller[i / 16] = m;
}
KERNEL block_scan(const int* x, int* out) {
  using S = cub::BlockScan<int, 128>;
  __shared__ typename S::TempStorage t;
  int v[4], total;
  for (int k = 0; k < 4; ++k) v[k] = x[(blockIdx.x * 128 + threadIdx.x) * 4 + k];
  S(t).ExclusiveSum(v, v, total);
  for (int k = 0; k < 4; ++k) out[(blockIdx.x * 128 + threadIdx.x) * 4 + k] = v[k];
}
KERNEL block_sort(unsigned* keys) {
  using S = cub::BlockRadixSort<unsigned, 128, 4>;
  __shared__ typename S::TempStorage t;
  unsigned v[4];
  for (int k = 0; k < 4; ++k) v[k] = keys[(blockIdx.x * 128 + threadIdx.x) * 4 + k];
  S(t).Sort(v);
  for (int k = 0; k < 4; ++k) keys[(blockIdx.x * 128 + threadIdx.x) * 4 + k] = v[k];
}

// ---- divergence ----
KERNEL collatz(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long v = x[i];
  int steps = 0;
  while (v != 1) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    ++steps;
    if (steps > 400) break;
  }
  out[i] = steps;
}
KERNEL nested(const int* x, int* out) {
  int i = threadIdx.x, s = 0;
  for (int a = 0; a < x[i]; ++a) {
    if (a % 3 == i % 3) continue;
    for (int b = 0; b < (i ^ a) % 7; ++b) {
      if (b == 5) break;
      s += a * b + (s & 1 ? 7 : 3);
    }
    unsigned all = __ballot_sync(__activemask(), s & 1);
    s += __popc(all) > 40;  // never
  }
  __syncwarp();
  out[i] = s + __shfl_xor_sync(~0u, i, 5);
}
__device__ __noinline__ int classify(int kind, int v) {
  switch (kind) {
    case 0: return v + 1;
    case 1: return v * 3;
    case 2: return v ^ 0x55;
    case 3: return v - 1000;
    case 4: return v << 3;
    case 5: return v >> 1;
    case 6: return ~v;
    case 7: return v * v;
    case 8: return v % 10;
    case 9: return 42;
    case 10: return -v;
    case 11: return v | 3;
    default: return 0;
  }
}
KERNEL switches(const int* kind, int* v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] = classify(kind[i], v[i]);
}
extern "C" __device__ float (*table[3])(float);
__device__ __noinline__ float f0(float x) { return x + 1; }
__device__ __noinline__ float f1(float x) { return x * x; }
__device__ __noinline__ float f2(float x) { return -x; }
__device__ float (*table[3])(float) = {f0, f1, f2};
KERNEL indirect(float* v) { v[threadIdx.x] = table[threadIdx.x % 3](v[threadIdx.x]); }

struct Big {
  float a;
  double b;
  int c[3];
};
__device__ __noinline__ Big change(Big s, int k) {
  s.a += k;
  s.b *= k;
  s.c[k % 3] += k;
  return s;
}
KERNEL structs(Big* p, int n) {
  int i = threadIdx.x;
  if (i < n) p[i] = change(p[i], i);
}
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
KERNEL recursion(int* out) { out[threadIdx.x] = fib(threadIdx.x % 12); }

// ---- memory ----
__device__ int g_counter = 7;
__device__ float g_table[4] = {1, 2, 3, 4};
__device__ float* g_pointer = g_table + 2;
__constant__ double c_table[3] = {1.5, 2.5, 3.5};
struct Pair {
  const char* name;
  int v;
};
__device__ Pair g_pairs[2] = {{"one", 1}, {"three", 3}};
KERNEL globals(float* out, int* count) {
  int i = threadIdx.x;
  out[i] = g_pointer[1] + float(c_table[i % 3]) + g_pairs[i & 1].v + g_pairs[i & 1].name[1];
  atomicAdd(&g_counter, 2);
  __syncthreads();
  if (i == 0) *count = g_counter;
}
extern __shared__ float dynamic[];
KERNEL dynamic_shared(const float* in, float* out, int n) {
  __shared__ int offset[32];
  if (threadIdx.x < 32) offset[threadIdx.x] = threadIdx.x;
  dynamic[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = dynamic[n - 1 - threadIdx.x] + offset[threadIdx.x % 32];
}
KERNEL locals(int* out, int n) {
  int a[24];
  for (int i = 0; i < 24; ++i) a[i] = i * threadIdx.x;
  for (int i = 0; i < n; ++i) a[(i * 7) % 24] += a[(i * 5 + threadIdx.x) % 24];
  int s = 0;
  for (int i = 0; i < 24; ++i) s = s * 31 + a[i];
  out[threadIdx.x] = s;
}
KERNEL generic_pointers(int* out, int which) {
  __shared__ int s[64];
  int l[4] = {1, 2, 3, 4};
  s[threadIdx.x] = threadIdx.x * 10;
  __syncthreads();
  int* p = (threadIdx.x % 3 == 0)   ? out + 64 + threadIdx.x
           : (threadIdx.x % 3 == 1) ? &s[63 - threadIdx.x]
                                    : &l[which & 3];
  *p += 5;
  __syncthreads();
  out[threadIdx.x] = *p + __isShared(p) * 1000 + __isGlobal(p) * 2000 + __isLocal(p) * 3000;
}
KERNEL vectors(const int4* a, const short4* b, const char4* c, const double2* d, const longlong2* e, int4* o,
               double2* od) {
  int i = threadIdx.x;
  int4 x = a[i];
  short4 y = b[i];
  char4 z = c[i];
  longlong2 w = e[i];
  o[i] = make_int4(x.x + y.x, x.y + y.y + z.y, x.z + z.z, x.w + int(w.x ^ w.y));
  od[i] = make_double2(d[i].y, d[i].x + z.x);
}

// ---- atomics ----
KERNEL atomics(int* i32, unsigned* u32, unsigned long long* u64, float* f32, double* f64, __half2* h2,
               __nv_bfloat16* b, long long* s64) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&i32[0], t);
  atomicMin(&i32[1], -t);
  atomicMax(&i32[2], t);
  atomicAnd(&u32[0], ~(1u << (t % 32)));
  atomicOr(&u32[1], 1u << (t % 32));
  atomicXor(&u32[2], t);
  atomicInc(&u32[3], 9);
  atomicDec(&u32[4], 9);
  atomicAdd(&u64[0], (unsigned long long)t << 30);
  atomicMax(&u64[1], (unsigned long long)t * t);
  atomicMin(&s64[0], -(long long)t);
  atomicAdd(&f32[0], 0.5f);
  atomicAdd(&f64[0], 0.25);
  atomicAdd(&h2[0], __floats2half2_rn(1.0f, 0.5f));
  atomicAdd(&b[0], __float2bfloat16(t < 64 ? 1.0f : 0.0f));
  // compare-and-swap loop
  unsigned old = u32[5], seen;
  do {
    seen = old;
    old = atomicCAS(&u32[5], seen, seen + 3);
  } while (old != seen);
  __shared__ int histogram[8];
  if (threadIdx.x < 8) histogram[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&histogram[t % 8], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&i32[8 + threadIdx.x], histogram[threadIdx.x]);
  atomicExch(&i32[3], 77);
}
__device__ unsigned g_lock;
KERNEL spin_lock(int* count) {  // needs one lane's progress while others poll
  bool done = false;
  while (!done) {
    if (atomicCAS(&g_lock, 0, 1) == 0) {
      *(volatile int*)count = *(volatile int*)count + 1;
      __threadfence();
      atomicExch(&g_lock, 0);
      done = true;
    }
  }
}
KERNEL lock_first(int* count, int*) {  // the plain form: needs independent thread scheduling
  while (atomicCAS(&g_lock, 0, 1) != 0) {
  }
  *(volatile int*)count = *(volatile int*)count + 1;
  __threadfence();
  atomicExch(&g_lock, 0);
}
KERNEL split_sync(int* o) {  // lanes meet at different __syncwarp()s
  __shared__ int s[32];
  int i = threadIdx.x;
  if (i < 10) {
    s[i] = i + 1;
    __syncwarp();
    o[i] = s[i + 10] + 1;
  } else {
    s[i] = i;
    __syncwarp();
    o[i] = i - 10;
  }
}
KERNEL last_block(const int* x, int* partial, int* out, unsigned* ticket) {
  __shared__ bool last;
  using R = cub::BlockReduce<int, 64>;
  __shared__ typename R::TempStorage t;
  int s = R(t).Sum(x[blockIdx.x * 64 + threadIdx.x]);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = s;
    __threadfence();
    last = atomicAdd(ticket, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int all = 0;
    for (int i = 0; i < gridDim.x; ++i) all += ((volatile int*)partial)[i];
    *out = all;
  }
}

// ---- warps ----
KERNEL warp_functions(const int* x, unsigned* out) {
  int i = threadIdx.x;
  unsigned* o = out + i * 16;
  int v = x[i];
  o[0] = __shfl_up_sync(~0u, v, 3);
  o[1] = __shfl_down_sync(~0u, v, 5, 16);
  o[2] = __shfl_xor_sync(~0u, v, 9);
  o[3] = __shfl_sync(~0u, v, i * 7, 8);
  o[4] = __ballot_sync(~0u, v & 1);
  o[5] = __any_sync(~0u, v > 90);
  o[6] = __all_sync(~0u, v >= 0);
  o[7] = __match_any_sync(~0u, v % 4);
  int p;
  o[8] = __match_all_sync(~0u, v >= 0, &p);
  o[9] = p;
  o[10] = __activemask();
#if __CUDA_ARCH__ >= 800
  o[11] = __reduce_add_sync(~0u, v);
  o[12] = __reduce_min_sync(~0u, v);
  o[13] = __reduce_max_sync(~0u, unsigned(v));
#else
  o[11] = o[12] = o[13] = 0;
#endif
  double d = __shfl_xor_sync(~0u, double(v) * 1.5, 1);
  o[14] = unsigned(d * 2);
  o[15] = __fns(0xf0f0f0f0u, 0, (i % 8) + 1);
}
KERNEL groups(int* out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int v = threadIdx.x;
  for (int d = 4; d; d /= 2) v += tile.shfl_xor(v, d);
  out[threadIdx.x] = v;
  if (threadIdx.x % 3 == 0) {
    auto c = cg::coalesced_threads();
    out[threadIdx.x] += 1000 * c.thread_rank() + 100000 * c.size();
  }
  block.sync();
}
KERNEL grid_sync(int* data, int* out) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank(), n = grid.size();
  for (int round = 0; round < 5; ++round) {
    data[(round % 2) * n + i] += data[((round + 1) % 2) * n + (i * 7 + 13) % n] + 1;
    grid.sync();
  }
  out[i] = data[i];
}
KERNEL syncs(int* out) {
  int i = threadIdx.x;
  out[i] = __syncthreads_count(i % 3 == 0) * 10000 + __syncthreads_and(i < 1000) * 100 +
           __syncthreads_or(i == 500);
}
KERNEL early_exit(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(&s, 1);
  __syncthreads();
  out[i] = s;
}
KERNEL look_back(const int* x, volatile int* sums, volatile int* flags,
                 int* out) {  // each block waits for the one before
  __shared__ int before;
  if (threadIdx.x == 0) {
    int s = 0;
    for (int k = 0; k < 32; ++k) s += x[blockIdx.x * 32 + k];
    int prefix = 0;
    if (blockIdx.x > 0) {
      while (flags[blockIdx.x - 1] == 0) {
      }
      __threadfence();
      prefix = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = prefix + s;
    __threadfence();
    flags[blockIdx.x] = 1;
    before = prefix;
  }
  __syncthreads();
  int v = before;
  for (int k = 0; k <= threadIdx.x; ++k) v += x[blockIdx.x * 32 + k];
  out[blockIdx.x * 32 + threadIdx.x] = v;
}

// ---- arithmetic ----
KERNEL halves(const __half* a, const __half* b, __half* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half* r = o + i * 8;
  r[0] = a[i] + b[i];
  r[1] = a[i] * b[i];
  r[2] = __hfma(a[i], b[i], a[i]);
  r[3] = a[i] / b[i];
  r[4] = __hmax(a[i], b[i]);
  r[5] = __hmin(a[i], b[i]);
  r[6] = a[i] < b[i] ? a[i] : __hneg(b[i]);
  __half2 p = __hadd2(__halves2half2(a[i], b[i]), __halves2half2(b[i], b[i]));
  r[7] = __high2half(p) - __low2half(p);
}
KERNEL bfloats(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat16* r = o + i * 8;
  r[0] = a[i] + b[i];
  r[1] = a[i] * b[i];
#if __CUDA_ARCH__ >= 800
  r[2] = __hfma(a[i], b[i], a[i]);
#else
  r[2] = __float2bfloat16(float(double(a[i]) * double(b[i]) + double(a[i])));
#endif
  r[3] = a[i] / b[i];
  r[4] = __hmax(a[i], b[i]);
  r[5] = __hmin(a[i], b[i]);
  r[6] = a[i] < b[i] ? a[i] : __hneg(b[i]);
  __nv_bfloat162 p = __hadd2(__halves2bfloat162(a[i], b[i]), __halves2bfloat162(b[i], b[i]));
  r[7] = __high2bfloat16(p) - __low2bfloat16(p);
}
KERNEL fp8(const float* x, unsigned char* e4, unsigned char* e5, float* back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_fp8_e4m3 a(x[i]);
  __nv_fp8_e5m2 b(x[i]);
  e4[i] = a.__x;
  e5[i] = b.__x;
  back[2 * i] = float(a);
  back[2 * i + 1] = float(b);
}
KERNEL integers(const long long* a, const long long* b, long long* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long x = a[i], y = b[i];
  long long* r = o + i * 24;
  int xs = int(x), ys = int(y);
  r[0] = x / y;
  r[1] = x % y;
  r[2] = (unsigned long long)x / (unsigned long long)y;
  r[3] = xs / ys;
  r[4] = unsigned(xs) % unsigned(ys);
  r[5] = __mul64hi(x, y);
  r[6] = __mulhi(xs, ys);
  r[7] = x << (y & 63);
  r[8] = x >> (y & 63);
  r[9] = __popcll(x) + __clzll(x) * 100 + __ffs(xs) * 10000;
  r[10] = (long long)__brevll(x);
  r[11] = __byte_perm(xs, ys, 0x5146);
  r[12] = __funnelshift_r(xs, ys, ys & 31);
  r[13] = __dp4a(xs, ys, 17);
  r[14] = __vadd4(xs, ys) ^ __vmaxs2(xs, ys);
  __int128 p = (__int128)x * y + x;
  r[15] = (long long)(p >> 64);
  r[16] = (long long)(p / 1000003);
  r[17] = (short)xs * (signed char)ys + (unsigned char)xs;
  r[18] = min(xs, ys) + max(unsigned(xs), unsigned(ys));
  r[19] = abs(xs) + llabs(y);
  r[20] = __sad(xs, ys, 5);
  r[21] = (long long)(float(x)) + (long long)(double(y) * 0.5);
  r[22] = __float2int_rn(float(xs) * 0.37f) + __double2uint_rz(double(unsigned(ys)) * 0.99);
  r[23] = __rhadd(xs, ys) + __umul24(xs, ys);
}
KERNEL floats(const float* a, const float* b, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i];
  float* r = o + i * 24;
  r[0] = x + y;
  r[1] = x * y;
  r[2] = x / y;
  r[3] = fmaf(x, y, x);
  r[4] = sqrtf(fabsf(x));
  r[5] = sinf(x);
  r[6] = cosf(y);
  r[7] = expf(x);
  r[8] = logf(fabsf(y));
  r[9] = tanhf(x);
  r[10] = powf(fabsf(x), y);
  r[11] = rsqrtf(fabsf(y));
  r[12] = fminf(x, y);
  r[13] = fmaxf(x, y);
  r[14] = floorf(x) + ceilf(y) + truncf(x) + rintf(y);
  r[15] = erff(x);
  r[16] = atan2f(x, y);
  r[17] = fmodf(x, y);
  r[18] = __fadd_rz(x, y);
  r[19] = __fmul_ru(x, y);
  r[20] = __fdiv_rd(x, y);
  r[21] = __expf(x);
  r[22] = cbrtf(x);
  r[23] = copysignf(x, y);
}
KERNEL doubles(const double* a, const double* b, double* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = a[i], y = b[i];
  double* r = o + i * 16;
  r[0] = x + y;
  r[1] = x * y;
  r[2] = x / y;
  r[3] = fma(x, y, x);
  r[4] = sqrt(fabs(x));
  r[5] = sin(x);
  r[6] = cos(y);
  r[7] = exp(x);
  r[8] = log(fabs(y));
  r[9] = tanh(x);
  r[10] = pow(fabs(x), y);
  r[11] = rsqrt(fabs(y));
  r[12] = fmin(x, y);
  r[13] = floor(x) + ceil(y) + trunc(x) + rint(y);
  r[14] = erf(x);
  r[15] = __dadd_ru(x, y);
}

// ---- the host's help, and faults ----
KERNEL prints(int n) {
  if (threadIdx.x == 1)
    printf("thread %d of %s: %5.2f %lld %c %08x 100%%\n", threadIdx.x, "block", 1.5, 123456789012ll, 'x', n);
}
KERNEL asserts(int n) { assert(n + threadIdx.x < 40 && "too many"); }
KERNEL out_of_bounds(int* p, int n) { p[threadIdx.x + n] = 1; }
KERNEL misaligned(char* p) { *(int*)(p + threadIdx.x * 4 + 1) = 5; }
KERNEL shared_out_of_bounds(int* p) {
  __shared__ int s[32];
  s[threadIdx.x * p[0]] = 1;
  __syncthreads();
  p[1] = s[5];
}
KERNEL null_read(const int* p, int* o) { o[0] = *p; }
KERNEL uninitialised(float* o) {
  __shared__ float s[32];
  if (o[0] > 0) s[threadIdx.x] = 1;
  o[threadIdx.x] = s[threadIdx.x];
}
KERNEL race(int* o) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  o[threadIdx.x] = s[63 - threadIdx.x];
}
KERNEL barrier_deadlock(int* o) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    while (((volatile int*)o)[0] == 0) {
    }
}
KERNEL waits_a_while(int* o) {  // a second or so on a GPU
  long long start = clock64();
  while (clock64() - start < 1000000000) {
  }
  __nanosleep(1000);
  o[0] = 1;
}
KERNEL endless(volatile int* o) {
  while (o[0] == 0) {
  }
}

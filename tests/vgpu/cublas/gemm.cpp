// Matrix products.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cublas/elements.hpp"

namespace vgpu::blas {

namespace {

template <class A>
void gemm(RunContext& context, int device, bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k,
          A alpha, const Matrix& a, const Matrix& b, A beta, const Matrix& c) {
  const std::vector<A> left = k && alpha != A{} ? dense<A>(context, device, a, ta) : std::vector<A>{};
  const std::vector<A> right = k && alpha != A{} ? dense<A>(context, device, b, tb) : std::vector<A>{};
  const std::size_t size = size_of(c.type);
  std::vector<A> sum(m), old(m);
  for (std::int64_t j = 0; j < n; ++j) {
    std::fill(sum.begin(), sum.end(), A{});
    if (!left.empty())
      for (std::int64_t p = 0; p < k; ++p) {
        const A factor = right[j * k + p];
        const A* column = left.data() + p * m;
        for (std::int64_t i = 0; i < m; ++i) sum[i] += column[i] * factor;
      }
    const char* address = static_cast<const char*>(c.data) + j * c.leading * size;
    if (beta != A{}) {
      load(c.type, static_cast<const char*>(context.access(device, address, m * size, false)), m, 1,
           old.data());
      for (std::int64_t i = 0; i < m; ++i) sum[i] = alpha * sum[i] + beta * old[i];
    } else {
      for (std::int64_t i = 0; i < m; ++i) sum[i] = alpha * sum[i];
    }
    store(c.type, static_cast<char*>(context.access(device, address, m * size, true)), m, 1, sum.data());
  }
}

enum class Compute { f32, f64, i32, f16 };

struct GemmCall {
  const char* name;
  cublasHandle_t handle;
  cublasOperation_t ta, tb;
  std::int64_t m, n, k;
  const void *alpha, *a;
  cudaDataType a_type;
  std::int64_t lda;
  const void* b;
  cudaDataType b_type;
  std::int64_t ldb;
  const void *beta, *c;
  cudaDataType c_type;
  std::int64_t ldc;
  Compute compute;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  bool arrays = false;  // a, b, c are device arrays of pointers
};

cublasStatus_t run_gemm(const GemmCall& call) {
  if (cublasStatus_t status = check(call.name, call.handle); status != CUBLAS_STATUS_SUCCESS) return status;
  const bool ta = call.ta != CUBLAS_OP_N, tb = call.tb != CUBLAS_OP_N;
  auto bad = [&](const char* why) { return refuse(call.name, CUBLAS_STATUS_INVALID_VALUE, why); };
  if (call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0) return bad("a negative size");
  if (call.ta < CUBLAS_OP_N || call.ta > CUBLAS_OP_C || call.tb < CUBLAS_OP_N || call.tb > CUBLAS_OP_C)
    return bad("not an operation");
  if (call.lda < std::max<std::int64_t>(1, ta ? call.k : call.m)) return bad("lda is too small");
  if (call.ldb < std::max<std::int64_t>(1, tb ? call.n : call.k)) return bad("ldb is too small");
  if (call.ldc < std::max<std::int64_t>(1, call.m)) return bad("ldc is too small");
  if (!call.alpha || !call.beta) return bad("alpha or beta is NULL");
  if (!size_of(call.a_type) || !size_of(call.b_type) || !size_of(call.c_type))
    return refuse(call.name, CUBLAS_STATUS_NOT_SUPPORTED, "a data type that vgpu does not know");
  if (call.m == 0 || call.n == 0 || call.batch == 0) return CUBLAS_STATUS_SUCCESS;
  if (!call.c || (call.k > 0 && (!call.a || !call.b))) return bad("a matrix is NULL");
  const auto is_aligned = [](const void* matrix, cudaDataType type) {
    return reinterpret_cast<std::uintptr_t>(matrix) % size_of(type) == 0;
  };
  if (!call.arrays && !(is_aligned(call.a, call.a_type) && is_aligned(call.b, call.b_type) &&
                        is_aligned(call.c, call.c_type)))
    return bad("a matrix begins at no multiple of its elements' size");
  const cudaDataType scale = call.compute == Compute::f64   ? CUDA_R_64F
                             : call.compute == Compute::i32 ? CUDA_R_32I
                             : call.compute == Compute::f16 ? CUDA_R_16F
                                                            : CUDA_R_32F;
  const ScalarArgument alpha = scalar(call.handle, call.alpha, scale),
                       beta = scalar(call.handle, call.beta, scale);
  const int device = call.handle->device;
  auto body = [call, alpha, beta, device, ta, tb](RunContext& context) {
    for (std::int64_t index = 0; index < call.batch; ++index) {
      auto place = [&](const void* base, std::int64_t stride, cudaDataType type) -> const void* {
        if (call.arrays) {
          const void* pointer;
          std::memcpy(&pointer,
                      context.access(device, static_cast<const char*>(base) + index * sizeof(void*),
                                     sizeof(void*), false),
                      sizeof pointer);
          return pointer;
        }
        return static_cast<const char*>(base) + index * stride * static_cast<std::int64_t>(size_of(type));
      };
      Matrix a{nullptr, call.a_type, ta ? call.k : call.m, ta ? call.m : call.k, call.lda};
      Matrix b{nullptr, call.b_type, tb ? call.n : call.k, tb ? call.k : call.n, call.ldb};
      Matrix c{place(call.c, call.stride_c, call.c_type), call.c_type, call.m, call.n, call.ldc};
      if (call.k) {
        a.data = place(call.a, call.stride_a, call.a_type);
        b.data = place(call.b, call.stride_b, call.b_type);
      }
      switch (call.compute) {
        case Compute::f64:
          gemm<double>(context, device, ta, tb, call.m, call.n, call.k, alpha.value<double>(context, device),
                       a, b, beta.value<double>(context, device), c);
          break;
        case Compute::i32:
          gemm<std::int32_t>(context, device, ta, tb, call.m, call.n, call.k,
                             alpha.value<std::int32_t>(context, device), a, b,
                             beta.value<std::int32_t>(context, device), c);
          break;
        default:
          gemm<float>(context, device, ta, tb, call.m, call.n, call.k, alpha.value<float>(context, device), a,
                      b, beta.value<float>(context, device), c);
          break;
      }
    }
  };
  return submit(call.name, call.handle,
                format("%s(m=%lld, n=%lld, k=%lld, batch=%lld)", call.name, static_cast<long long>(call.m),
                       static_cast<long long>(call.n), static_cast<long long>(call.k),
                       static_cast<long long>(call.batch)),
                2.0 * call.m * call.n * call.k * call.batch, body);
}

bool compute_of(cublasComputeType_t type, Compute& compute) {
  switch (type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC: compute = Compute::f16; return true;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC: compute = Compute::i32; return true;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT: compute = Compute::f64; return true;
    default:
      compute = Compute::f32;
      return type >= CUBLAS_COMPUTE_32F && type <= CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT;
  }
}

}  // namespace

}  // namespace vgpu::blas

using namespace vgpu::blas;

extern "C" {

#define VGPU_GEMM(letter, T, type, compute)                                                                \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                                       \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha,   \
      const T* a, int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc,  \
      long long sc, int batch) {                                                                           \
    return run_gemm({"cublas" #letter "gemmStridedBatched",                                                \
                     h,                                                                                    \
                     ta,                                                                                   \
                     tb,                                                                                   \
                     m,                                                                                    \
                     n,                                                                                    \
                     k,                                                                                    \
                     alpha,                                                                                \
                     a,                                                                                    \
                     type,                                                                                 \
                     lda,                                                                                  \
                     b,                                                                                    \
                     type,                                                                                 \
                     ldb,                                                                                  \
                     beta,                                                                                 \
                     c,                                                                                    \
                     type,                                                                                 \
                     ldc,                                                                                  \
                     compute,                                                                              \
                     batch,                                                                                \
                     sa,                                                                                   \
                     sb,                                                                                   \
                     sc,                                                                                   \
                     false});                                                                              \
  }                                                                                                        \
  cublasStatus_t cublas##letter##gemmBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, \
                                             int m, int n, int k, const T* alpha, const T* const a[],      \
                                             int lda, const T* const b[], int ldb, const T* beta,          \
                                             T* const c[], int ldc, int batch) {                           \
    return run_gemm({"cublas" #letter "gemmBatched",                                                       \
                     h,                                                                                    \
                     ta,                                                                                   \
                     tb,                                                                                   \
                     m,                                                                                    \
                     n,                                                                                    \
                     k,                                                                                    \
                     alpha,                                                                                \
                     a,                                                                                    \
                     type,                                                                                 \
                     lda,                                                                                  \
                     b,                                                                                    \
                     type,                                                                                 \
                     ldb,                                                                                  \
                     beta,                                                                                 \
                     c,                                                                                    \
                     type,                                                                                 \
                     ldc,                                                                                  \
                     compute,                                                                              \
                     batch,                                                                                \
                     0,                                                                                    \
                     0,                                                                                    \
                     0,                                                                                    \
                     true});                                                                               \
  }
VGPU_GEMM(S, float, CUDA_R_32F, Compute::f32)
VGPU_GEMM(D, double, CUDA_R_64F, Compute::f64)
VGPU_GEMM(H, __half, CUDA_R_16F, Compute::f16)

#define VGPU_PLAIN_GEMM(name, label, I, T, type, compute)                                                 \
  cublasStatus_t name(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k,        \
                      const T* alpha, const T* a, I lda, const T* b, I ldb, const T* beta, T* c, I ldc) { \
    return run_gemm(                                                                                      \
        {label, h, ta, tb, m, n, k, alpha, a, type, lda, b, type, ldb, beta, c, type, ldc, compute});     \
  }
VGPU_PLAIN_GEMM(cublasSgemm_v2, "cublasSgemm", int, float, CUDA_R_32F, Compute::f32)
VGPU_PLAIN_GEMM(cublasDgemm_v2, "cublasDgemm", int, double, CUDA_R_64F, Compute::f64)
VGPU_PLAIN_GEMM(cublasHgemm, "cublasHgemm", int, __half, CUDA_R_16F, Compute::f16)
VGPU_PLAIN_GEMM(cublasSgemm_v2_64, "cublasSgemm", std::int64_t, float, CUDA_R_32F, Compute::f32)
VGPU_PLAIN_GEMM(cublasDgemm_v2_64, "cublasDgemm", std::int64_t, double, CUDA_R_64F, Compute::f64)

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType at, int lda, const void* b,
                            cudaDataType bt, int ldb, const void* beta, void* c, cudaDataType ct, int ldc,
                            cublasComputeType_t type, cublasGemmAlgo_t) {
  Compute compute;
  if (!compute_of(type, compute)) return CUBLAS_STATUS_INVALID_VALUE;
  return run_gemm(
      {"cublasGemmEx", h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute});
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType at,
                                          int lda, long long sa, const void* b, cudaDataType bt, int ldb,
                                          long long sb, const void* beta, void* c, cudaDataType ct, int ldc,
                                          long long sc, int batch, cublasComputeType_t type,
                                          cublasGemmAlgo_t) {
  Compute compute;
  if (!compute_of(type, compute)) return CUBLAS_STATUS_INVALID_VALUE;
  return run_gemm({"cublasGemmStridedBatchedEx",
                   h,
                   ta,
                   tb,
                   m,
                   n,
                   k,
                   alpha,
                   a,
                   at,
                   lda,
                   b,
                   bt,
                   ldb,
                   beta,
                   c,
                   ct,
                   ldc,
                   compute,
                   batch,
                   sa,
                   sb,
                   sc,
                   false});
}
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                   int k, const void* alpha, const void* const a[], cudaDataType at, int lda,
                                   const void* const b[], cudaDataType bt, int ldb, const void* beta,
                                   void* const c[], cudaDataType ct, int ldc, int batch,
                                   cublasComputeType_t type, cublasGemmAlgo_t) {
  Compute compute;
  if (!compute_of(type, compute)) return CUBLAS_STATUS_INVALID_VALUE;
  return run_gemm({"cublasGemmBatchedEx",
                   h,
                   ta,
                   tb,
                   m,
                   n,
                   k,
                   alpha,
                   a,
                   at,
                   lda,
                   b,
                   bt,
                   ldb,
                   beta,
                   c,
                   ct,
                   ldc,
                   compute,
                   batch,
                   0,
                   0,
                   0,
                   true});
}
cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                             int k, const float* alpha, const void* a, cudaDataType at, int lda,
                             const void* b, cudaDataType bt, int ldb, const float* beta, void* c,
                             cudaDataType ct, int ldc) {
  return run_gemm(
      {"cublasSgemmEx", h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, Compute::f32});
}
}

// cuBLAS against plain loops.
#include <cmath>

#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "gate.hpp"

#define BLAS(call) EXPECT(call, CUBLAS_STATUS_SUCCESS)

static float entry(std::size_t index) { return static_cast<float>((index * 37) % 19) - 9; }

// C = alpha op(A) op(B) + beta C, column-major.
template <class T>
std::vector<T> reference(bool ta, bool tb, int m, int n, int k, T alpha, const std::vector<T>& a, int lda,
                         const std::vector<T>& b, int ldb, T beta, std::vector<T> c, int ldc) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      T sum = 0;
      for (int p = 0; p < k; ++p)
        sum += (ta ? a[i * lda + p] : a[p * lda + i]) * (tb ? b[p * ldb + j] : b[j * ldb + p]);
      c[j * ldc + i] = alpha * sum + beta * c[j * ldc + i];
    }
  return c;
}

static cublasStatus_t product(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                              int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                              const float* beta, float* c, int ldc) {
  return cublasSgemm(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
static cublasStatus_t product(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                              int k, const double* alpha, const double* a, int lda, const double* b, int ldb,
                              const double* beta, double* c, int ldc) {
  return cublasDgemm(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template <class T>
void products(cublasHandle_t handle, cudaStream_t stream) {
  const int m = 13, n = 7, k = 21;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const int lda = (ta ? k : m) + 3, ldb = (tb ? n : k) + 1, ldc = m + 2;
      std::vector<T> a(lda * (ta ? m : k)), b(ldb * (tb ? k : n)), c(ldc * n);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = entry(i);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = entry(i + 5);
      for (std::size_t i = 0; i < c.size(); ++i) c[i] = entry(i + 11);
      T *da = upload(a), *db = upload(b), *dc = upload(c);
      const T alpha = 2, beta = -1;
      BLAS(product(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha,
                   da, lda, db, ldb, &beta, dc, ldc));
      OK(cudaStreamSynchronize(stream));
      CHECK(fetch(dc, c.size()) == reference<T>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
      OK(cudaFree(da));
      OK(cudaFree(db));
      OK(cudaFree(dc));
    }
}

TEST_CASE("cuBLAS gives what plain loops give") {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  for (int d = 0; d < devices; ++d) {
    OK(cudaSetDevice(d));
    cublasHandle_t handle;
    cudaStream_t stream, back;
    BLAS(cublasCreate(&handle));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    BLAS(cublasSetStream(handle, stream));
    BLAS(cublasGetStream(handle, &back));
    CHECK(back == stream);
    products<float>(handle, stream);
    products<double>(handle, stream);
    // Half precision with accumulation in float, batched with strides, scalars on the device.
    const int m = 4, n = 3, k = 5, batch = 6;
    std::vector<__half> a(m * k * batch), b(k * n * batch);
    std::vector<float> af(a.size()), bf(b.size());
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = __float2half(af[i] = entry(i) / 4);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = __float2half(bf[i] = entry(i + 3) / 2);
    __half *da = upload(a), *db = upload(b);
    float* dc = nullptr;
    OK(cudaMalloc(&dc, m * n * batch * sizeof(float)));
    float* scalars = upload<float>({1.5f, 0.0f});
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    BLAS(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, scalars, da, CUDA_R_16F, m,
                                    m * k, db, CUDA_R_16F, k, k * n, scalars + 1, dc, CUDA_R_32F, m, m * n,
                                    batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    OK(cudaStreamSynchronize(stream));
    const auto got = fetch(dc, m * n * batch);
    for (int index = 0; index < batch; ++index) {
      const std::vector<float> one(af.begin() + index * m * k, af.begin() + (index + 1) * m * k),
          two(bf.begin() + index * k * n, bf.begin() + (index + 1) * k * n);
      const auto wanted =
          reference<float>(false, false, m, n, k, 1.5f, one, m, two, k, 0, std::vector<float>(m * n), m);
      CHECK(std::vector<float>(got.begin() + index * m * n, got.begin() + (index + 1) * m * n) == wanted);
    }
    // Vectors.
    std::vector<float> x(10), y(10);
    for (int i = 0; i < 10; ++i) {
      x[i] = static_cast<float>(i);
      y[i] = 1;
    }
    float *dx = upload(x), *dy = upload(y);
    float* result = nullptr;
    OK(cudaMalloc(&result, sizeof(float)));
    BLAS(cublasSdot(handle, 10, dx, 1, dy, 1, result));
    OK(cudaStreamSynchronize(stream));
    CHECK(fetch(result, 1)[0] == 45);
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    float number = 2;
    BLAS(cublasSaxpy(handle, 10, &number, dx, 1, dy, 1));
    BLAS(cublasSasum(handle, 10, dy, 1, &number));  // waits
    CHECK(number == 100);
    BLAS(cublasSnrm2(handle, 2, dx + 3, 1, &number));
    CHECK(number == 5);
    number = 3;
    BLAS(cublasSscal(handle, 5, &number, dx, 2));
    BLAS(cublasScopy(handle, 10, dx, 1, dy, 1));
    OK(cudaStreamSynchronize(stream));
    CHECK((fetch(dy, 10)[8] == 24 && fetch(dy, 10)[9] == 9));
    int index = 0;
    BLAS(cublasIsamax(handle, 10, dy, 1, &index));
    CHECK(index == 9);
    // y = A^T x, and a transposition.
    std::vector<float> matrix{1, 2, 3, 4, 5, 6};  // 2 x 3
    float* dm = upload(matrix);
    float one = 1, zero = 0;
    BLAS(cublasSgemv(handle, CUBLAS_OP_T, 2, 3, &one, dm, 2, dx + 1, 1, &zero, dy, 1));
    float* dt = nullptr;
    OK(cudaMalloc(&dt, 6 * sizeof(float)));
    BLAS(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, 3, 2, &one, dm, 2, &zero, dt, 3, dt, 3));
    OK(cudaStreamSynchronize(stream));
    CHECK(fetch(dy, 3) == (std::vector<float>{13, 27, 41}));  // x is 1, 6 there
    CHECK(fetch(dt, 6) == (std::vector<float>{1, 3, 5, 2, 4, 6}));
    EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, dm, 2, dm, 4, &zero, dm, 4),
           CUBLAS_STATUS_INVALID_VALUE);
    auto* const between = reinterpret_cast<float*>(reinterpret_cast<char*>(dm) + 1);
    EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, between, 1, dm, 1, &zero, dm, 1),
           CUBLAS_STATUS_INVALID_VALUE);
    for (void* pointer : {static_cast<void*>(da), static_cast<void*>(db), static_cast<void*>(dc),
                          static_cast<void*>(scalars), static_cast<void*>(dx), static_cast<void*>(dy),
                          static_cast<void*>(result), static_cast<void*>(dm), static_cast<void*>(dt)})
      OK(cudaFree(pointer));
    BLAS(cublasDestroy(handle));
    EXPECT(cublasDestroy(handle), CUBLAS_STATUS_NOT_INITIALIZED);
    OK(cudaStreamDestroy(stream));
  }
}

TEST_CASE("allocation-waits: cuBLAS handles begin and end when the device has done its work") {
  const cudaStream_t busy = make_stream(), other = make_stream();
  cublasHandle_t handle = nullptr;
  {
    Gate gate(busy);
    const bool waits = waits_for(gate, other, [&] { BLAS(cublasCreate(&handle)); });
    CHECK(waits);
  }
  {
    Gate gate(busy);
    const bool waits = waits_for(gate, other, [&] { BLAS(cublasDestroy(handle)); });
    CHECK(waits);
  }
  OK(cudaStreamDestroy(busy));
  OK(cudaStreamDestroy(other));
}

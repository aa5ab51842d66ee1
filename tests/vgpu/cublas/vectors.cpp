// Vectors, and a matrix with a vector.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cublas/elements.hpp"

namespace vgpu::blas {

namespace {

// Strided vectors; a negative increment starts at the far end.
template <class T>
std::vector<T> read(RunContext& context, int device, const T* x, std::int64_t n, std::int64_t step) {
  std::vector<T> result(n);
  if (n == 0) return result;
  const std::int64_t distance = step < 0 ? -step : step;
  const auto* at =
      static_cast<const T*>(context.access(device, x, ((n - 1) * distance + 1) * sizeof(T), false));
  for (std::int64_t index = 0; index < n; ++index)
    result[index] = at[(step < 0 ? n - 1 - index : index) * distance];
  return result;
}
template <class T>
void write(RunContext& context, int device, T* x, std::int64_t n, std::int64_t step,
           const std::vector<T>& values) {
  if (n == 0) return;
  const std::int64_t distance = step < 0 ? -step : step;
  for (std::int64_t index = 0; index < n; ++index)
    *static_cast<T*>(context.access(device, x + (step < 0 ? n - 1 - index : index) * distance, sizeof(T),
                                    true)) = values[index];
}

template <class T>
constexpr cudaDataType real_type() {
  return sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;
}

template <class T>
cublasStatus_t axpy(const char* name, cublasHandle_t handle, std::int64_t n, const T* alpha, const T* x,
                    std::int64_t incx, T* y, std::int64_t incy) {
  if (cublasStatus_t status = check(name, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  const ScalarArgument factor = scalar(handle, alpha, real_type<T>());
  const int device = handle->device;
  return submit(name, handle, format("%s(n=%lld)", name, static_cast<long long>(n)), 2.0 * n,
                [=](RunContext& context) {
                  const T a = factor.value<T>(context, device);
                  const std::vector<T> left = read(context, device, x, n, incx);
                  std::vector<T> right = read<T>(context, device, y, n, incy);
                  for (std::int64_t index = 0; index < n; ++index) right[index] += a * left[index];
                  write(context, device, y, n, incy, right);
                });
}

template <class T>
cublasStatus_t scal(const char* name, cublasHandle_t handle, std::int64_t n, const T* alpha, T* x,
                    std::int64_t incx) {
  if (cublasStatus_t status = check(name, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (n <= 0 || incx <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !x) return CUBLAS_STATUS_INVALID_VALUE;
  const ScalarArgument factor = scalar(handle, alpha, real_type<T>());
  const int device = handle->device;
  return submit(name, handle, format("%s(n=%lld)", name, static_cast<long long>(n)), 1.0 * n,
                [=](RunContext& context) {
                  const T a = factor.value<T>(context, device);
                  std::vector<T> values = read<T>(context, device, x, n, incx);
                  for (T& value : values) value *= a;
                  write(context, device, x, n, incx, values);
                });
}

template <class T>
cublasStatus_t copy(const char* name, cublasHandle_t handle, std::int64_t n, const T* x, std::int64_t incx,
                    T* y, std::int64_t incy, bool swap = false) {
  if (cublasStatus_t status = check(name, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  const int device = handle->device;
  return submit(name, handle, format("%s(n=%lld)", name, static_cast<long long>(n)), 1.0 * n,
                [=](RunContext& context) {
                  const std::vector<T> left = read(context, device, x, n, incx);
                  if (swap)
                    write(context, device, const_cast<T*>(x), n, incx, read<T>(context, device, y, n, incy));
                  write(context, device, y, n, incy, left);
                });
}

// A result that goes to the host (which then waits) or to device memory.
template <class R>
cublasStatus_t reduction(const char* name, cublasHandle_t handle, std::int64_t n, R* result,
                         std::function<R(RunContext&)> compute) {
  if (cublasStatus_t status = check(name, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (!result) return CUBLAS_STATUS_INVALID_VALUE;
  const bool host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  const int device = handle->device;
  return submit(
      name, handle, format("%s(n=%lld)", name, static_cast<long long>(n)), 2.0 * n,
      [=](RunContext& context) {
        const R value = n > 0 ? compute(context) : R{};
        if (host)
          *result = value;
        else
          *static_cast<R*>(context.access(device, result, sizeof(R), true)) = value;
      },
      host);
}

template <class T>
cublasStatus_t dot(const char* name, cublasHandle_t handle, std::int64_t n, const T* x, std::int64_t incx,
                   const T* y, std::int64_t incy, T* result) {
  const int device = handle ? handle->device : 0;
  return reduction<T>(name, handle, n, result, [=](RunContext& context) {
    const auto left = read(context, device, x, n, incx), right = read(context, device, y, n, incy);
    T sum{};
    for (std::int64_t index = 0; index < n; ++index) sum += left[index] * right[index];
    return sum;
  });
}
template <class T>
cublasStatus_t nrm2(const char* name, cublasHandle_t handle, std::int64_t n, const T* x, std::int64_t incx,
                    T* result) {
  const int device = handle ? handle->device : 0;
  return reduction<T>(name, handle, n, result, [=](RunContext& context) {
    double sum = 0;
    for (T value : read(context, device, x, n, incx)) sum += static_cast<double>(value) * value;
    return static_cast<T>(std::sqrt(sum));
  });
}
template <class T>
cublasStatus_t asum(const char* name, cublasHandle_t handle, std::int64_t n, const T* x, std::int64_t incx,
                    T* result) {
  const int device = handle ? handle->device : 0;
  return reduction<T>(name, handle, n, result, [=](RunContext& context) {
    T sum{};
    for (T value : read(context, device, x, n, incx)) sum += std::fabs(value);
    return sum;
  });
}
template <class T>
cublasStatus_t extreme(const char* name, cublasHandle_t handle, std::int64_t n, const T* x, std::int64_t incx,
                       int* result, bool largest) {
  const int device = handle ? handle->device : 0;
  return reduction<int>(name, handle, n, result, [=](RunContext& context) {
    const auto values = read(context, device, x, n, incx);
    int best = 0;
    for (std::int64_t index = 1; index < n; ++index)
      if (largest ? std::fabs(values[index]) > std::fabs(values[best])
                  : std::fabs(values[index]) < std::fabs(values[best]))
        best = static_cast<int>(index);
    return best + 1;
  });
}

template <class T>
cublasStatus_t gemv(const char* name, cublasHandle_t handle, cublasOperation_t op, std::int64_t m,
                    std::int64_t n, const T* alpha, const T* a, std::int64_t lda, const T* x,
                    std::int64_t incx, const T* beta, T* y, std::int64_t incy) {
  if (cublasStatus_t status = check(name, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (m < 0 || n < 0 || lda < std::max<std::int64_t>(1, m) || !incx || !incy || !alpha || !beta)
    return refuse(name, CUBLAS_STATUS_INVALID_VALUE, "a bad size, increment or scalar");
  const bool transposed = op != CUBLAS_OP_N;
  const std::int64_t in = transposed ? m : n, out = transposed ? n : m;
  if (out == 0) return CUBLAS_STATUS_SUCCESS;
  const ScalarArgument first = scalar(handle, alpha, real_type<T>()),
                       second = scalar(handle, beta, real_type<T>());
  const int device = handle->device;
  return submit(name, handle,
                format("%s(m=%lld, n=%lld)", name, static_cast<long long>(m), static_cast<long long>(n)),
                2.0 * m * n, [=](RunContext& context) {
                  const T p = first.value<T>(context, device), q = second.value<T>(context, device);
                  const std::vector<T> matrix =
                      dense<T>(context, device, {a, real_type<T>(), m, n, lda}, transposed);  // out x in
                  const std::vector<T> vector = read(context, device, x, in, incx);
                  std::vector<T> sum(out);
                  for (std::int64_t j = 0; j < in; ++j)
                    for (std::int64_t i = 0; i < out; ++i) sum[i] += matrix[j * out + i] * vector[j];
                  if (q != T{}) {
                    const std::vector<T> old = read<T>(context, device, y, out, incy);
                    for (std::int64_t i = 0; i < out; ++i) sum[i] = p * sum[i] + q * old[i];
                  } else {
                    for (T& value : sum) value *= p;
                  }
                  write(context, device, y, out, incy, sum);
                });
}

template <class T>
cublasStatus_t ger(const char* name, cublasHandle_t handle, std::int64_t m, std::int64_t n, const T* alpha,
                   const T* x, std::int64_t incx, const T* y, std::int64_t incy, T* a, std::int64_t lda) {
  if (cublasStatus_t status = check(name, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (m < 0 || n < 0 || lda < std::max<std::int64_t>(1, m) || !incx || !incy || !alpha)
    return CUBLAS_STATUS_INVALID_VALUE;
  const ScalarArgument factor = scalar(handle, alpha, real_type<T>());
  const int device = handle->device;
  return submit(
      name, handle, format("%s(m=%lld, n=%lld)", name, static_cast<long long>(m), static_cast<long long>(n)),
      2.0 * m * n, [=](RunContext& context) {
        const T p = factor.value<T>(context, device);
        const auto left = read(context, device, x, m, incx), right = read(context, device, y, n, incy);
        for (std::int64_t j = 0; j < n; ++j) {
          auto* column = static_cast<T*>(context.access(device, a + j * lda, m * sizeof(T), true));
          for (std::int64_t i = 0; i < m; ++i) column[i] += p * left[i] * right[j];
        }
      });
}

template <class T>
cublasStatus_t geam(const char* name, cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                    std::int64_t m, std::int64_t n, const T* alpha, const T* a, std::int64_t lda,
                    const T* beta, const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {
  if (cublasStatus_t status = check(name, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  const bool left = ta != CUBLAS_OP_N, right = tb != CUBLAS_OP_N;
  if (m < 0 || n < 0 || !alpha || !beta || ldc < std::max<std::int64_t>(1, m))
    return refuse(name, CUBLAS_STATUS_INVALID_VALUE, "a bad size or scalar");
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const ScalarArgument first = scalar(handle, alpha, real_type<T>()),
                       second = scalar(handle, beta, real_type<T>());
  const int device = handle->device;
  return submit(
      name, handle, format("%s(m=%lld, n=%lld)", name, static_cast<long long>(m), static_cast<long long>(n)),
      2.0 * m * n, [=](RunContext& context) {
        const T p = first.value<T>(context, device), q = second.value<T>(context, device);
        std::vector<T> x, y;
        if (p != T{})
          x = dense<T>(context, device, {a, real_type<T>(), left ? n : m, left ? m : n, lda}, left);
        if (q != T{})
          y = dense<T>(context, device, {b, real_type<T>(), right ? n : m, right ? m : n, ldb}, right);
        for (std::int64_t j = 0; j < n; ++j) {
          auto* column = static_cast<T*>(context.access(device, c + j * ldc, m * sizeof(T), true));
          for (std::int64_t i = 0; i < m; ++i)
            column[i] = (x.empty() ? T{} : p * x[j * m + i]) + (y.empty() ? T{} : q * y[j * m + i]);
        }
      });
}

}  // namespace

}  // namespace vgpu::blas

using namespace vgpu::blas;

extern "C" {

#define VGPU_REAL(L, T)                                                                                      \
  cublasStatus_t cublas##L##axpy_v2(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y,     \
                                    int incy) {                                                              \
    return axpy<T>("cublas" #L "axpy", h, n, alpha, x, incx, y, incy);                                       \
  }                                                                                                          \
  cublasStatus_t cublas##L##scal_v2(cublasHandle_t h, int n, const T* alpha, T* x, int incx) {               \
    return scal<T>("cublas" #L "scal", h, n, alpha, x, incx);                                                \
  }                                                                                                          \
  cublasStatus_t cublas##L##copy_v2(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy) {         \
    return copy<T>("cublas" #L "copy", h, n, x, incx, y, incy);                                              \
  }                                                                                                          \
  cublasStatus_t cublas##L##swap_v2(cublasHandle_t h, int n, T* x, int incx, T* y, int incy) {               \
    return copy<T>("cublas" #L "swap", h, n, x, incx, y, incy, true);                                        \
  }                                                                                                          \
  cublasStatus_t cublas##L##dot_v2(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy,      \
                                   T* result) {                                                              \
    return dot<T>("cublas" #L "dot", h, n, x, incx, y, incy, result);                                        \
  }                                                                                                          \
  cublasStatus_t cublas##L##nrm2_v2(cublasHandle_t h, int n, const T* x, int incx, T* result) {              \
    return nrm2<T>("cublas" #L "nrm2", h, n, x, incx, result);                                               \
  }                                                                                                          \
  cublasStatus_t cublas##L##asum_v2(cublasHandle_t h, int n, const T* x, int incx, T* result) {              \
    return asum<T>("cublas" #L "asum", h, n, x, incx, result);                                               \
  }                                                                                                          \
  cublasStatus_t cublas##L##gemv_v2(cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha,    \
                                    const T* a, int lda, const T* x, int incx, const T* beta, T* y,          \
                                    int incy) {                                                              \
    return gemv<T>("cublas" #L "gemv", h, op, m, n, alpha, a, lda, x, incx, beta, y, incy);                  \
  }                                                                                                          \
  cublasStatus_t cublas##L##ger_v2(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int incx,     \
                                   const T* y, int incy, T* a, int lda) {                                    \
    return ger<T>("cublas" #L "ger", h, m, n, alpha, x, incx, y, incy, a, lda);                              \
  }                                                                                                          \
  cublasStatus_t cublas##L##geam(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, \
                                 const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb,    \
                                 T* c, int ldc) {                                                            \
    return geam<T>("cublas" #L "geam", h, ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc);                \
  }
VGPU_REAL(S, float)
VGPU_REAL(D, double)
cublasStatus_t cublasIsamax_v2(cublasHandle_t h, int n, const float* x, int incx, int* result) {
  return extreme<float>("cublasIsamax", h, n, x, incx, result, true);
}
cublasStatus_t cublasIdamax_v2(cublasHandle_t h, int n, const double* x, int incx, int* result) {
  return extreme<double>("cublasIdamax", h, n, x, incx, result, true);
}
cublasStatus_t cublasIsamin_v2(cublasHandle_t h, int n, const float* x, int incx, int* result) {
  return extreme<float>("cublasIsamin", h, n, x, incx, result, false);
}
cublasStatus_t cublasIdamin_v2(cublasHandle_t h, int n, const double* x, int incx, int* result) {
  return extreme<double>("cublasIdamin", h, n, x, incx, result, false);
}
}

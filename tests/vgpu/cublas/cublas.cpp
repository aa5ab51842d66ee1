// The part of cuBLAS that programs under test use, as operations of vgpu's streams. Column-major, plain
// loops.
#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include <cublas_v2.h>

#include "nccl/arithmetic.hpp"
#include "runtime/runtime.hpp"

using vgpu::rt::CustomWork;
using vgpu::rt::Op;
using vgpu::rt::RunContext;
using vgpu::rt::Runtime;
using vgpu::rt::StreamInfo;

struct cublasContext {
  static constexpr std::uint64_t alive = 0x76677075424C4153ull;
  std::uint64_t magic = alive;
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {

Runtime& rt() {
  static Runtime& runtime = *vgpu_runtime();
  return runtime;
}

class Work final : public CustomWork {
 public:
  std::string text;
  double operations = 0;
  std::function<void(RunContext&)> body;
  std::shared_ptr<Op> op;
  std::string describe() const override { return text; }
  void bind(const std::shared_ptr<Op>& bound) override { op = bound; }
  void run(RunContext& context) override { body(context); }
  double nanoseconds() const override { return 5000 + operations / 20000; }
};

int status_by_name(const std::string& name) {
  for (int value = 1; value <= CUBLAS_STATUS_LICENSE_ERROR; ++value)
    if (name == cublasGetStatusName(static_cast<cublasStatus_t>(value))) return value;
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char text[512];
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

cublasStatus_t refuse(const char* name, cublasStatus_t status, const std::string& why) {
  rt().report(std::string(name) + ": " + why);
  return status;
}

cublasStatus_t check(const char* name, cublasHandle_t handle) {
  if (!handle || handle->magic != cublasContext::alive) return CUBLAS_STATUS_NOT_INITIALIZED;
  return static_cast<cublasStatus_t>(rt().inject(name, status_by_name, CUBLAS_STATUS_EXECUTION_FAILED));
}

cublasStatus_t submit(const char* name, cublasHandle_t handle, std::string text, double operations,
                      std::function<void(RunContext&)> body, bool wait = false) {
  StreamInfo info;
  if (!rt().stream_info(handle->stream, handle->device, info))
    return refuse(name, CUBLAS_STATUS_EXECUTION_FAILED, "the handle's stream is not a live one");
  if (info.device != handle->device)
    return refuse(name, CUBLAS_STATUS_EXECUTION_FAILED,
                  format("the handle's stream belongs to device %d, the handle to device %d", info.device,
                         handle->device));
  if (rt().current_device() != handle->device)
    return refuse(name, CUBLAS_STATUS_EXECUTION_FAILED,
                  format("device %d is current, the handle belongs to device %d", rt().current_device(),
                         handle->device));
  auto work = std::make_shared<Work>();
  work->text = text;
  work->operations = operations;
  work->body = std::move(body);
  if (rt().tracing())
    rt().trace(format("thread %llu device %d %s stream %llu",
                      static_cast<unsigned long long>(rt().thread_number()), handle->device, text.c_str(),
                      static_cast<unsigned long long>(info.id)));
  if (rt().enqueue(handle->stream, handle->device, work) != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  if (wait && work->op) {
    const std::shared_ptr<Op> op = work->op;
    if (rt().wait([&] { return rt().finished(op); }, name) != cudaSuccess) {
      rt().lock();
      rt().cancel(op);
      rt().unlock();
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    work->op.reset();
    if (rt().sticky(handle->device) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// ---------------------------------------------------------------- element types

using vgpu::nccl::Bfloat;
using vgpu::nccl::E4m3;
using vgpu::nccl::E5m2;
using vgpu::nccl::Half;

std::size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2: return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F:
    case CUDA_R_32I: return 4;
    case CUDA_R_64F: return 8;
    default: return 0;
  }
}

template <class T, class A>
void load_as(const char* from, std::size_t count, std::size_t stride, A* to) {
  for (std::size_t index = 0; index < count; ++index)
    to[index] = static_cast<A>(vgpu::nccl::Traits<T>::load(from + index * stride * sizeof(T)));
}
template <class A>
void load(cudaDataType type, const char* from, std::size_t count, std::size_t stride, A* to) {
  switch (type) {
    case CUDA_R_8I: return load_as<std::int8_t>(from, count, stride, to);
    case CUDA_R_8U: return load_as<std::uint8_t>(from, count, stride, to);
    case CUDA_R_8F_E4M3: return load_as<E4m3>(from, count, stride, to);
    case CUDA_R_8F_E5M2: return load_as<E5m2>(from, count, stride, to);
    case CUDA_R_16F: return load_as<Half>(from, count, stride, to);
    case CUDA_R_16BF: return load_as<Bfloat>(from, count, stride, to);
    case CUDA_R_32I: return load_as<std::int32_t>(from, count, stride, to);
    case CUDA_R_32F: return load_as<float>(from, count, stride, to);
    case CUDA_R_64F: return load_as<double>(from, count, stride, to);
    default: return;
  }
}
template <class T, class A>
void store_as(char* to, std::size_t count, std::size_t stride, const A* from) {
  for (std::size_t index = 0; index < count; ++index)
    vgpu::nccl::Traits<T>::store(to + index * stride * sizeof(T),
                                 static_cast<typename vgpu::nccl::Traits<T>::Accumulator>(from[index]));
}
template <class A>
void store(cudaDataType type, char* to, std::size_t count, std::size_t stride, const A* from) {
  switch (type) {
    case CUDA_R_8I: return store_as<std::int8_t>(to, count, stride, from);
    case CUDA_R_16F: return store_as<Half>(to, count, stride, from);
    case CUDA_R_16BF: return store_as<Bfloat>(to, count, stride, from);
    case CUDA_R_32I: return store_as<std::int32_t>(to, count, stride, from);
    case CUDA_R_32F: return store_as<float>(to, count, stride, from);
    case CUDA_R_64F: return store_as<double>(to, count, stride, from);
    case CUDA_R_8F_E4M3: return store_as<E4m3>(to, count, stride, from);
    case CUDA_R_8F_E5M2: return store_as<E5m2>(to, count, stride, from);
    default: return;
  }
}

// A scalar argument: read at the call in host pointer mode, when the operation runs in device pointer mode.
struct ScalarArgument {
  bool device = false;
  const void* pointer = nullptr;
  cudaDataType type = CUDA_R_32F;
  char bytes[8] = {};
  template <class A>
  A value(RunContext& context, int on) const {
    const char* at =
        device ? static_cast<const char*>(context.access(on, pointer, size_of(type), false)) : bytes;
    A result{};
    load(type, at, 1, 1, &result);
    return result;
  }
};

ScalarArgument scalar(cublasHandle_t handle, const void* pointer, cudaDataType type) {
  ScalarArgument argument;
  argument.type = type;
  argument.pointer = pointer;
  argument.device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  if (!argument.device && pointer) std::memcpy(argument.bytes, pointer, size_of(type));
  return argument;
}

struct Matrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;  // as stored
};

// The matrix, or its transpose, as a dense column-major one.
template <class A>
std::vector<A> dense(RunContext& context, int device, const Matrix& matrix, bool transposed) {
  std::vector<A> result(matrix.rows * matrix.columns);
  std::vector<A> column(matrix.rows);
  const std::size_t size = size_of(matrix.type);
  for (std::int64_t j = 0; j < matrix.columns; ++j) {
    const auto* from = static_cast<const char*>(
        context.access(device, static_cast<const char*>(matrix.data) + j * matrix.leading * size,
                       matrix.rows * size, false));
    if (!transposed) {
      load(matrix.type, from, matrix.rows, 1, result.data() + j * matrix.rows);
    } else {
      load(matrix.type, from, matrix.rows, 1, column.data());
      for (std::int64_t i = 0; i < matrix.rows; ++i) result[i * matrix.columns + j] = column[i];
    }
  }
  return result;
}

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

// ---------------------------------------------------------------- vectors

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

extern "C" {

// Copies between host and device, as 2-D copies.
static cublasStatus_t copied(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}
cublasStatus_t cublasSetVector(int n, int bytes, const void* x, int incx, void* y, int incy) {
  if (n < 0 || bytes <= 0 || incx <= 0 || incy <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(cudaMemcpy2D(y, std::size_t(incy) * bytes, x, std::size_t(incx) * bytes, bytes, n,
                             cudaMemcpyHostToDevice));
}
cublasStatus_t cublasGetVector(int n, int bytes, const void* x, int incx, void* y, int incy) {
  if (n < 0 || bytes <= 0 || incx <= 0 || incy <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(cudaMemcpy2D(y, std::size_t(incy) * bytes, x, std::size_t(incx) * bytes, bytes, n,
                             cudaMemcpyDeviceToHost));
}
cublasStatus_t cublasSetMatrix(int rows, int cols, int bytes, const void* a, int lda, void* b, int ldb) {
  if (rows < 0 || cols < 0 || bytes <= 0 || lda < rows || ldb < rows) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(cudaMemcpy2D(b, std::size_t(ldb) * bytes, a, std::size_t(lda) * bytes,
                             std::size_t(rows) * bytes, cols, cudaMemcpyHostToDevice));
}
cublasStatus_t cublasGetMatrix(int rows, int cols, int bytes, const void* a, int lda, void* b, int ldb) {
  if (rows < 0 || cols < 0 || bytes <= 0 || lda < rows || ldb < rows) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(cudaMemcpy2D(b, std::size_t(ldb) * bytes, a, std::size_t(lda) * bytes,
                             std::size_t(rows) * bytes, cols, cudaMemcpyDeviceToHost));
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (rt().device_count() == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (int status = rt().inject("cublasCreate", status_by_name, CUBLAS_STATUS_ALLOC_FAILED))
    return static_cast<cublasStatus_t>(status);
  if (rt().sticky(rt().current_device()) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  (*handle)->device = rt().current_device();
  rt().object_created("cuBLAS handle", *handle, format("of device %d", (*handle)->device));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (!handle || handle->magic != cublasContext::alive) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->magic = 0;  // kept, so that stale handles are told
  rt().object_destroyed("cuBLAS handle", handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
           : type == MINOR_VERSION ? CUBLAS_VER_MINOR
                                   : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasGetCudartVersion(void) { return CUDART_VERSION; }

#define VGPU_ACCESSOR(Name, Type, member)                                                       \
  cublasStatus_t cublasSet##Name(cublasHandle_t handle, Type value) {                           \
    if (!handle || handle->magic != cublasContext::alive) return CUBLAS_STATUS_NOT_INITIALIZED; \
    handle->member = value;                                                                     \
    return CUBLAS_STATUS_SUCCESS;                                                               \
  }                                                                                             \
  cublasStatus_t cublasGet##Name(cublasHandle_t handle, Type* value) {                          \
    if (!handle || handle->magic != cublasContext::alive) return CUBLAS_STATUS_NOT_INITIALIZED; \
    if (!value) return CUBLAS_STATUS_INVALID_VALUE;                                             \
    *value = handle->member;                                                                    \
    return CUBLAS_STATUS_SUCCESS;                                                               \
  }
VGPU_ACCESSOR(Stream_v2, cudaStream_t, stream)
VGPU_ACCESSOR(PointerMode_v2, cublasPointerMode_t, pointer_mode)
VGPU_ACCESSOR(MathMode, cublasMath_t, math)
VGPU_ACCESSOR(AtomicsMode, cublasAtomicsMode_t, atomics)

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void*, size_t) {
  return handle && handle->magic == cublasContext::alive ? CUBLAS_STATUS_SUCCESS
                                                         : CUBLAS_STATUS_NOT_INITIALIZED;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
    default: return "CUBLAS_STATUS_UNKNOWN";
  }
}
const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the GPU program failed to execute";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return cublasGetStatusName(status);
  }
}

// ---- matrix products

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

// ---- vectors and the rest

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

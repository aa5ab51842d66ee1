#include "cublas/handle.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

namespace vgpu::blas {

namespace {

using rt::CustomWork;
using rt::Op;
using rt::StreamInfo;

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

}  // namespace

Runtime& runtime() {
  static Runtime& instance = *vgpu_runtime();
  return instance;
}

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char text[512];
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

cublasStatus_t refuse(const char* name, cublasStatus_t status, const std::string& why) {
  runtime().report(std::string(name) + ": " + why);
  return status;
}

cublasStatus_t check(const char* name, cublasHandle_t handle) {
  if (!handle || handle->magic != cublasContext::alive) return CUBLAS_STATUS_NOT_INITIALIZED;
  return static_cast<cublasStatus_t>(runtime().inject(name, status_by_name, CUBLAS_STATUS_EXECUTION_FAILED));
}

cublasStatus_t submit(const char* name, cublasHandle_t handle, std::string text, double operations,
                      std::function<void(RunContext&)> body, bool wait) {
  StreamInfo info;
  if (!runtime().stream_info(handle->stream, handle->device, info))
    return refuse(name, CUBLAS_STATUS_EXECUTION_FAILED, "the handle's stream is not a live one");
  if (info.device != handle->device)
    return refuse(name, CUBLAS_STATUS_EXECUTION_FAILED,
                  format("the handle's stream belongs to device %d, the handle to device %d", info.device,
                         handle->device));
  if (runtime().current_device() != handle->device)
    return refuse(name, CUBLAS_STATUS_EXECUTION_FAILED,
                  format("device %d is current, the handle belongs to device %d", runtime().current_device(),
                         handle->device));
  auto work = std::make_shared<Work>();
  work->text = text;
  work->operations = operations;
  work->body = std::move(body);
  if (runtime().tracing())
    runtime().trace(format("thread %llu device %d %s stream %llu",
                           static_cast<unsigned long long>(runtime().thread_number()), handle->device,
                           text.c_str(), static_cast<unsigned long long>(info.id)));
  if (runtime().enqueue(handle->stream, handle->device, work) != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  if (wait && work->op) {
    const std::shared_ptr<Op> op = work->op;
    if (runtime().wait([&] { return runtime().finished(op); }, name) != cudaSuccess) {
      runtime().lock();
      runtime().cancel(op);
      runtime().unlock();
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    work->op.reset();
    if (runtime().sticky(handle->device) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace vgpu::blas

using namespace vgpu::blas;

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
  if (runtime().device_count() == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (int status = runtime().inject("cublasCreate", status_by_name, CUBLAS_STATUS_ALLOC_FAILED))
    return static_cast<cublasStatus_t>(status);
  if (runtime().sticky(runtime().current_device()) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (runtime().wait_to_map(runtime().current_device(), "cublasCreate") != cudaSuccess)
    return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = new cublasContext;
  (*handle)->device = runtime().current_device();
  runtime().object_created("cuBLAS handle", *handle, format("of device %d", (*handle)->device));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (!handle || handle->magic != cublasContext::alive) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (runtime().wait_to_map(handle->device, "cublasDestroy") != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  handle->magic = 0;  // kept, so that stale handles are told
  runtime().object_destroyed("cuBLAS handle", handle);
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
}

#include "cuda_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "detail/expects.hpp"
#include "device/device_guard.hpp"
#include "device/temporary.hpp"
#include "graphs/capture.hpp"
#include "libraries/cublas_library.hpp"
#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {

CudaKernels::~CudaKernels() { close(); }

void CudaKernels::close() noexcept {
  if (is_fork_of_user()) return;
  const std::lock_guard lock(blas_mutex_);
  if (blas_ != nullptr) cublasDestroy(blas_);
  blas_ = nullptr;
}

// cuBLAS is column-major, where a row-major matrix is its own transpose: out^T = op(b)^T op(a)^T.
void CudaKernels::matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
                         bool transpose_b, backend::StreamHandle stream) {
  constexpr const char* kOperation = "matmul";
  const std::int64_t m = out.shape[0];
  const std::int64_t n = out.shape[1];
  const std::int64_t k = a.shape[transpose_a ? 0 : 1];
  LOCKSTEP_EXPECTS(out.dtype == DType::f32 || out.dtype == DType::f64, Unsupported, "matmul on ", out.device,
                   ": ", a.shape, " by ", b.shape, " of ", out.dtype,
                   " has no kernel. Cast to float32 or float64.");
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  LOCKSTEP_EXPECTS(std::max({m, n, k}) <= kMost, Unsupported, "matmul on ", out.device, ": ", a.shape, " by ",
                   b.shape, " ", out.dtype, " has an extent that cuBLAS cannot count (more than ", kMost,
                   "). Split the matrices.");
  if (k == 0) return fill(out, 0, stream);

  const DeviceGuard guard(ordinal_, device_);
  const Place place = place_on(stream);
  const auto copy_all = [&](void* to, const void* from, const TensorView& view) {
    LOCKSTEP_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(view.nbytes()),
                                        cudaMemcpyDeviceToDevice, place.stream),
                        device_, kOperation);
  };
  // cuBLAS takes elements at multiples of their size only.
  const auto aligned = [&](const TensorView& view, Temporary& other) {
    if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) == 0) return view.data;
    other = Temporary(place, view.nbytes());
    return other.data();
  };
  Temporary other_a, other_b, other_out;
  void* const from_a = aligned(a, other_a);
  void* const from_b = aligned(b, other_b);
  void* const to = aligned(out, other_out);
  if (from_a != a.data) copy_all(from_a, a.data, a);
  if (from_b != b.data) copy_all(from_b, b.data, b);

  const std::lock_guard lock(blas_mutex_);
  if (blas_ == nullptr) {
    const OutsideCaptures outside;
    LOCKSTEP_CUBLAS_CHECK(cublasCreate(&blas_), device_, kOperation);
  }
  LOCKSTEP_CUBLAS_CHECK(cublasSetStream(blas_, native(stream)), device_, kOperation);
  const cublasOperation_t op_a = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int rows = static_cast<int>(m);
  const int columns = static_cast<int>(n);
  const int depth = static_cast<int>(k);
  const int row_of_a = transpose_a ? rows : depth;
  const int row_of_b = transpose_b ? depth : columns;
  const bool is_double = out.dtype == DType::f64;
  const float one = 1, zero = 0;
  const double one_double = 1, zero_double = 0;
  const void* const alpha = is_double ? static_cast<const void*>(&one_double) : &one;
  const void* const beta = is_double ? static_cast<const void*>(&zero_double) : &zero;
  const cudaDataType_t type = is_double ? CUDA_R_64F : CUDA_R_32F;
  const cublasComputeType_t compute = is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  LOCKSTEP_CUBLAS_CHECK(
      cublasGemmEx(blas_, op_b, op_a, columns, rows, depth, alpha, from_b, type, row_of_b, from_a, type,
                   row_of_a, beta, to, type, columns, compute, CUBLAS_GEMM_DEFAULT),
      device_, kOperation);
  if (to != out.data) copy_all(out.data, to, out);
}

}  // namespace lockstep::cuda

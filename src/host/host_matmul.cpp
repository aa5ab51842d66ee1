#include <algorithm>
#include <limits>
#include <mutex>

#include <cblas.h>

#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

/// OpenBLAS would start a thread for every core for every replica. This holds for the whole process.
void make_blas_single_threaded() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

}  // namespace

void HostKernels::matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
                         bool transpose_b, backend::StreamHandle stream) {
  const detail::FloatEnvironment environment;
  const std::int64_t m = out.shape[0];
  const std::int64_t n = out.shape[1];
  const std::int64_t k = a.shape[transpose_a ? 0 : 1];
  LOCKSTEP_EXPECTS(out.dtype == DType::f32 || out.dtype == DType::f64, Unsupported, "matmul on ", out.device,
                   ": ", a.shape, " by ", b.shape, " of ", out.dtype,
                   " has no kernel. Cast to float32 or float64.");
  LOCKSTEP_EXPECTS(std::max({m, n, k}) <= std::numeric_limits<blasint>::max(), Unsupported, "matmul on ",
                   out.device, ": ", a.shape, " by ", b.shape, " ", out.dtype,
                   " has an extent that OpenBLAS cannot count (more than ",
                   std::numeric_limits<blasint>::max(), "). Split the matrices.");
  if (k == 0) return fill(out, 0, stream);

  make_blas_single_threaded();
  const CBLAS_TRANSPOSE op_a = transpose_a ? CblasTrans : CblasNoTrans;
  const CBLAS_TRANSPOSE op_b = transpose_b ? CblasTrans : CblasNoTrans;
  const auto rows = static_cast<blasint>(m);
  const auto columns = static_cast<blasint>(n);
  const auto depth = static_cast<blasint>(k);
  const blasint row_of_a = transpose_a ? rows : depth;
  const blasint row_of_b = transpose_b ? depth : columns;
  if (out.dtype == DType::f32) {
    cblas_sgemm(CblasRowMajor, op_a, op_b, rows, columns, depth, 1, static_cast<const float*>(a.data),
                row_of_a, static_cast<const float*>(b.data), row_of_b, 0, static_cast<float*>(out.data),
                columns);
  } else {
    cblas_dgemm(CblasRowMajor, op_a, op_b, rows, columns, depth, 1, static_cast<const double*>(a.data),
                row_of_a, static_cast<const double*>(b.data), row_of_b, 0, static_cast<double*>(out.data),
                columns);
  }
}

}  // namespace lockstep::host

#include <algorithm>
#include <limits>

#include "detail/expects.hpp"
#include "detail/float_environment.hpp"
#include "host/blas.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

/// Extents of the parts of a product. OpenBLAS works on the calling thread alone for at most 65,536 × 4
/// multiplications (SMP_THRESHOLD_MIN and GEMM_MULTITHREAD_THRESHOLD in its interface/gemm.c, Makefile.rule);
/// otherwise each replica would wake a thread for every core. The process decides how many threads OpenBLAS
/// has. Cubic parts lose the least: 4 to 20 %.
constexpr std::int64_t kTile = 64;
constexpr std::int64_t kMaxMultiplications = kTile * kTile * kTile;

/// A row-major matrix, or its transpose.
template <class T>
struct Matrix {
  const T* data;
  bool is_transposed;
  blasint row_length;

  CBLAS_TRANSPOSE transpose() const noexcept { return is_transposed ? CblasTrans : CblasNoTrans; }
  const T* at(std::int64_t row, std::int64_t column) const noexcept {
    return is_transposed ? data + column * row_length + row : data + row * row_length + column;
  }
};

template <class T, class Gemm>
void multiply(Gemm gemm, T* out, const Matrix<T>& a, const Matrix<T>& b, std::int64_t m, std::int64_t n,
              std::int64_t k) {
  const auto part = [&](std::int64_t row, std::int64_t column, std::int64_t depth, std::int64_t rows,
                        std::int64_t columns, std::int64_t depths) {
    gemm(CblasRowMajor, a.transpose(), b.transpose(), static_cast<blasint>(rows),
         static_cast<blasint>(columns), static_cast<blasint>(depths), 1, a.at(row, depth), a.row_length,
         b.at(depth, column), b.row_length, depth == 0 ? 0 : 1, out + row * n + column,
         static_cast<blasint>(n));
  };
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= kMaxMultiplications)
    return part(0, 0, 0, m, n, k);
  for (std::int64_t row = 0; row < m; row += kTile)
    for (std::int64_t column = 0; column < n; column += kTile)
      for (std::int64_t depth = 0; depth < k; depth += kTile)
        part(row, column, depth, std::min(kTile, m - row), std::min(kTile, n - column),
             std::min(kTile, k - depth));
}

template <class T, class Gemm>
void multiply(Gemm gemm, const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
              bool transpose_b, std::int64_t k) {
  const std::int64_t m = out.shape[0];
  const std::int64_t n = out.shape[1];
  multiply(gemm, static_cast<T*>(out.data),
           Matrix<T>{static_cast<const T*>(a.data), transpose_a, static_cast<blasint>(transpose_a ? m : k)},
           Matrix<T>{static_cast<const T*>(b.data), transpose_b, static_cast<blasint>(transpose_b ? k : n)},
           m, n, k);
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

  if (out.dtype == DType::f32)
    multiply<float>(blas().sgemm, out, a, transpose_a, b, transpose_b, k);
  else
    multiply<double>(blas().dgemm, out, a, transpose_a, b, transpose_b, k);
}

}  // namespace lockstep::host

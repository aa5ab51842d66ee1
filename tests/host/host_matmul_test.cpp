#include <array>
#include <ctime>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cblas.h>

#include <lockstep/error.hpp>

#include "host/host_kernels.hpp"
#include "support/matchers.hpp"

namespace lockstep::host {

using test::says;

TEST_CASE("P32 extents that OpenBLAS cannot count are refused", "[matmul][host]") {
  HostKernels kernels;
  const std::int64_t n = std::int64_t{1} << 31;
  float nothing = 0;
  const TensorView out(&nothing, Shape(1, 1), DType::f32);
  const TensorView row(&nothing, Shape(std::int64_t{1}, n), DType::f32);
  CHECK_THROWS_MATCHES(kernels.matmul(out, row, false, row, true, {}), Unsupported,
                       says("matmul", "CPU:0", "[1, 2147483648]", "OpenBLAS", "Split"));
}

namespace {

/// Seconds of processor time of a clock.
double seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class T>
std::vector<T> product(const std::vector<T>& a, bool transpose_a, const std::vector<T>& b, bool transpose_b,
                       std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<T> out(static_cast<std::size_t>(m * n));
  const auto at = [](const std::vector<T>& x, bool is_transposed, std::int64_t row, std::int64_t column,
                     std::int64_t rows, std::int64_t columns) {
    return x[static_cast<std::size_t>(is_transposed ? column * rows + row : row * columns + column)];
  };
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p)
        out[static_cast<std::size_t>(i * n + j)] +=
            at(a, transpose_a, i, p, m, k) * at(b, transpose_b, p, j, k, n);
  return out;
}

template <class T>
std::vector<T> small_integers(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i * 7 % 11) - 5;
  return values;
}

template <class T>
void check_products(DType dtype) {
  HostKernels kernels;
  const std::vector<std::array<std::int64_t, 3>> extents{{63, 65, 64},   {64, 64, 64},   {65, 130, 67},
                                                         {1, 600, 500},  {600, 1, 500},  {200, 150, 9},
                                                         {3, 2, 50'000}, {1, 1, 300'000}};
  for (const auto& [m, n, k] : extents)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        CAPTURE(m, n, k, transpose_a, transpose_b);
        auto a = small_integers<T>(m * k), b = small_integers<T>(k * n);
        std::vector<T> out(static_cast<std::size_t>(m * n), T(99));
        const TensorView a_view(a.data(), transpose_a ? Shape(k, m) : Shape(m, k), dtype);
        const TensorView b_view(b.data(), transpose_b ? Shape(n, k) : Shape(k, n), dtype);
        kernels.matmul(TensorView(out.data(), Shape(m, n), dtype), a_view, transpose_a, b_view, transpose_b,
                       {});
        CHECK(out == product(a, transpose_a, b, transpose_b, m, n, k));
      }
}

}  // namespace

TEST_CASE("products of all sizes are right at the edges of OpenBLAS's parts", "[matmul][host]") {
  check_products<float>(DType::f32);
  check_products<double>(DType::f64);
}

TEST_CASE("a product stays on the calling thread, and OpenBLAS as it is", "[matmul][host]") {
  const int num_threads = openblas_get_num_threads();
  openblas_set_num_threads(4);
  HostKernels kernels;
  constexpr std::int64_t n = 700;
  std::vector<float> values(n * n, 1.0f), out(n * n);
  const TensorView in(values.data(), Shape(n, n), DType::f32);
  const TensorView result(out.data(), Shape(n, n), DType::f32);
  // OpenBLAS's threads take time for a while after they were made: one product without them is enough.
  bool is_alone = false;
  for (int i = 0; i < 100 && !is_alone; ++i) {
    const double process = seconds(CLOCK_PROCESS_CPUTIME_ID), thread = seconds(CLOCK_THREAD_CPUTIME_ID);
    kernels.matmul(result, in, false, in, false, {});
    const double on_thread = seconds(CLOCK_THREAD_CPUTIME_ID) - thread;
    is_alone = seconds(CLOCK_PROCESS_CPUTIME_ID) - process < 1.2 * on_thread;
  }
  CHECK(is_alone);
  CHECK(out == std::vector<float>(n * n, 700.0f));
  CHECK(openblas_get_num_threads() == 4);
  openblas_set_num_threads(num_threads);
}

}  // namespace lockstep::host

#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "host/host_kernels.hpp"
#include "support/matchers.hpp"

extern "C" int openblas_get_num_threads(void);

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

TEST_CASE("OpenBLAS stays on the replica's own thread", "[matmul][host]") {
  HostKernels kernels;
  std::vector<float> values(64 * 64, 1.0f), out(64 * 64);
  const TensorView in(values.data(), Shape(64, 64), DType::f32);
  kernels.matmul(TensorView(out.data(), Shape(64, 64), DType::f32), in, false, in, false, {});
  CHECK(out == std::vector<float>(64 * 64, 64.0f));
  CHECK(openblas_get_num_threads() == 1);
}

}  // namespace lockstep::host

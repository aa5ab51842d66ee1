// In a program without products of matrices.
#include <catch2/catch_test_macros.hpp>
#include <dlfcn.h>

#include <lockstep/ops.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

using namespace lockstep;

TEST_CASE("OpenBLAS is loaded where matrices are multiplied", "[matmul][host]") {
  const auto is_loaded = [] { return ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD) != nullptr; };
  MirroredStrategy strategy({Device("CPU:0"), Device("CPU:1")});
  strategy.run([&] {
    static_cast<void>(get_replica_context()->all_reduce(ReduceOp::sum, Tensor::ones({3, 3})));
  });
  CHECK_FALSE(is_loaded());
  CHECK(matmul(Tensor::ones({1, 2}), Tensor::ones({2, 1})).item<float>() == 2);
  CHECK(is_loaded());
}

#include "input/rows/host_rows.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/numpy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::says;
using test::Values;

TEST_CASE("tensors of equal shape are stacked along a new axis", "[input][host]") {
  const Tensor a = test::vector_of({1, 2, 3}), b = test::vector_of({4, 5, 6}).to("CPU:1");
  const Tensor stacked = detail::stack({a, b}, "test");
  CHECK(stacked.shape() == Shape(2, 3));
  CHECK(stacked.device() == Device("CPU:0"));
  CHECK(stacked.to_vector<std::int64_t>() == Values{1, 2, 3, 4, 5, 6});
  CHECK(detail::stack({Tensor::scalar(2.5f)}, "test").shape() == Shape(1));
  CHECK(detail::stack({Tensor::zeros({0, 2}), Tensor::zeros({0, 2})}, "test").shape() == Shape(2, 0, 2));
}

TEST_CASE("strided tensors are stacked by their elements", "[input][host]") {
  const Tensor matrix = Tensor::from<std::int64_t>({1, 2, 3, 4}, {2, 2});
  CHECK(detail::stack({matrix.narrow(1, 0, 1), matrix.narrow(1, 1, 2)}, "test").to_vector<std::int64_t>() ==
        Values{1, 3, 2, 4});
}

TEST_CASE("tensors that differ are not stacked", "[input][host]") {
  CHECK_THROWS_MATCHES(detail::stack({}, "make"), InvalidArgument,
                       says("make: there are no tensors to stack"));
  CHECK_THROWS_MATCHES(detail::stack({Tensor::zeros({2}), Tensor::zeros({3})}, "make"), InvalidArgument,
                       says("make: cannot stack [3] float32", "on [2] float32"));
  CHECK_THROWS_MATCHES(detail::stack({Tensor::zeros({2}), Tensor::zeros({2}, DType::f64)}, "make"),
                       InvalidArgument, says("[2] float64", "[2] float32"));
}

TEST_CASE("a copy on the host shares nothing", "[input][host]") {
  Tensor original = test::vector_of({1, 2});
  const Tensor copy = detail::copy_to_host(original),
               from_elsewhere = detail::copy_to_host(original.to("CPU:2"));
  original.fill_(7);
  CHECK(copy.to_vector<std::int64_t>() == Values{1, 2});
  CHECK(from_elsewhere.device() == Device("CPU:0"));
  CHECK(from_elsewhere.to_vector<std::int64_t>() == Values{1, 2});
}

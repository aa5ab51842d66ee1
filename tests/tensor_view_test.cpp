#include <limits>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/tensor_view.hpp>

using namespace lockstep;

TEST_CASE("a view of memory is contiguous and knows its size", "[tensor][host]") {
  std::vector<float> values(6);
  const TensorView view(values.data(), {2, 3}, DType::f32, "CPU:1");
  CHECK(view.data == values.data());
  CHECK(view.size() == 6);
  CHECK(view.nbytes() == 24);
  CHECK(view.device == Device("CPU:1"));
  CHECK(view.is_contiguous());
  CHECK_FALSE(view.read_only);
}

TEST_CASE("a view of constant memory is read-only", "[tensor][host]") {
  const std::vector<double> values(2);
  const TensorView view(values.data(), {2}, DType::f64);
  CHECK(view.read_only);
  CHECK(view.is_contiguous());
}

TEST_CASE("strides decide whether a view is contiguous", "[tensor][host]") {
  std::vector<float> values(24);
  TensorView view(values.data(), {2, 3, 4}, DType::f32);
  view.strides = {12, 4, 2};
  CHECK_FALSE(view.is_contiguous());
  view.strides = {24, 4, 1};
  CHECK_FALSE(view.is_contiguous());
  view.strides = {0, 0, 0};
  CHECK_FALSE(view.is_contiguous());
  view.strides = {12, 4, 1};
  CHECK(view.is_contiguous());
}

TEST_CASE("strides do not matter where no step is taken", "[tensor][host]") {
  std::vector<float> values(24);
  TensorView row(values.data(), {1, 4, 1}, DType::f32);
  row.strides = {100, 1, 7};
  CHECK(row.is_contiguous());
  row.strides = {100, 2, 7};
  CHECK_FALSE(row.is_contiguous());
  TensorView empty(values.data(), {3, 0}, DType::f32);
  empty.strides = {9, 9};
  CHECK(empty.is_contiguous());
  TensorView one(values.data(), {1, 1}, DType::f32);
  one.strides = {5, 3};
  CHECK(one.is_contiguous());
  CHECK(TensorView(values.data(), Shape(), DType::f32).is_contiguous());
}

TEST_CASE("the bytes of the largest shape fit", "[tensor][host]") {
  const Shape largest(std::numeric_limits<std::int64_t>::max() / 8);
  CHECK(TensorView(static_cast<void*>(nullptr), largest, DType::f64).nbytes() == largest.size() * 8);
}

#include <sstream>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/input/tensor_spec.hpp>

using namespace lockstep;

TEST_CASE("a spec of a shape knows every extent", "[input][host]") {
  const TensorSpec spec = TensorSpec::of({2, 3}, DType::f32);
  CHECK(spec.rank() == 2);
  CHECK(spec.is_static());
  CHECK(to_string(spec) == "[2, 3] float32");
  CHECK(spec == TensorSpec({2, 3}, DType::f32));
  CHECK(TensorSpec::of(Shape(), DType::i64).is_static());
}

TEST_CASE("a spec prints unknown extents and tells them from known ones", "[input][host]") {
  const TensorSpec spec({std::nullopt, 3}, DType::u8);
  CHECK_FALSE(spec.is_static());
  std::ostringstream out;
  out << spec;
  CHECK(out.str() == "[?, 3] uint8");
  CHECK(spec != TensorSpec({2, 3}, DType::u8));
  CHECK(spec != TensorSpec({std::nullopt, 3}, DType::i8));
}

TEST_CASE("a spec may be unknown", "[input][host]") {
  CHECK_FALSE(TensorSpec::unknown().is_static());
  CHECK(to_string(TensorSpec::unknown()) == "unknown");
  CHECK(TensorSpec::unknown() == TensorSpec::unknown());
  CHECK(TensorSpec::unknown() != TensorSpec());
}

TEST_CASE("a spec is compatible with tensors that are as it says", "[input][host]") {
  const TensorSpec spec({std::nullopt, 3}, DType::u8);
  CHECK(spec.is_compatible_with({0, 3}, DType::u8));
  CHECK(spec.is_compatible_with({7, 3}, DType::u8));
  CHECK_FALSE(spec.is_compatible_with({7, 2}, DType::u8));
  CHECK_FALSE(spec.is_compatible_with({3}, DType::u8));
  CHECK_FALSE(spec.is_compatible_with({7, 3, 1}, DType::u8));
  CHECK_FALSE(spec.is_compatible_with({7, 3}, DType::i8));
  CHECK(TensorSpec({}, DType::f32).is_compatible_with(Shape(), DType::f32));
  CHECK(TensorSpec::unknown().is_compatible_with({7, 3}, DType::i8));
}

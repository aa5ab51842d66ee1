#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

namespace combined_pipelines_test {
Dataset rows(std::int64_t width, DType dtype = DType::f32) {
  return Dataset::from_tensor_slices(Tensor::zeros({4, width}, dtype));
}

const std::vector<TensorSpec>& spec(const Dataset& dataset) { return dataset.pipeline()->spec; }
}  // namespace combined_pipelines_test

using combined_pipelines_test::rows;
using combined_pipelines_test::spec;

TEST_CASE("what is known of concatenated elements is what they have in common", "[input][host]") {
  CHECK(spec(rows(3).concatenate(rows(3))) == std::vector{TensorSpec({3}, DType::f32)});
  CHECK(spec(rows(3).concatenate(rows(5))) == std::vector{TensorSpec({std::nullopt}, DType::f32)});
  CHECK(spec(rows(3).concatenate(rows(3).batch(2))) == std::vector{TensorSpec::unknown()});
  const auto batches = rows(3).batch(2, true);
  CHECK(spec(batches.concatenate(batches)) == std::vector{TensorSpec({2, 3}, DType::f32)});
  CHECK(batches.concatenate(batches).pipeline()->batch_size == 2);
  CHECK_FALSE(batches.concatenate(rows(3).batch(4)).pipeline()->batch_size);
}

TEST_CASE("elements of different kinds are not concatenated", "[input][host]") {
  CHECK_THROWS_MATCHES(rows(3).concatenate(rows(3, DType::i64)), InvalidArgument,
                       says("Dataset::concatenate: component 0", "first dataset's elements is [3] float32",
                            "second's [3] int64"));
  const Tensor a = Tensor::zeros({4});
  CHECK_THROWS_MATCHES(Dataset(Dataset::from_tensor_slices(a, a)).concatenate(rows(3)), InvalidArgument,
                       says("the elements are lockstep::Tensor"));
  CHECK_THROWS_MATCHES(
      Dataset::from_tensor_slices(std::vector{a, a}).concatenate(Dataset::from_tensor_slices(std::vector{a})),
      InvalidArgument, says("first dataset have 2 components", "second 1"));
}

TEST_CASE("what is known of zipped elements is what is known of each", "[input][host]") {
  const auto batches = Dataset::range(6).batch(2, true);
  const auto zipped = Dataset::zip(batches, Dataset::range(6).batch(2));
  CHECK(spec(zipped) == std::vector{TensorSpec({2}, DType::i64), TensorSpec({std::nullopt}, DType::i64)});
  CHECK(zipped.pipeline()->batch_size == 2);
  CHECK_FALSE(Dataset::zip(batches, Dataset::range(6).batch(3)).pipeline()->batch_size);
  const auto lists = Dataset::range(2).map([](const Tensor& x) { return std::vector{x}; });
  CHECK(spec(Dataset::zip(Dataset::range(2), lists)).empty());
}

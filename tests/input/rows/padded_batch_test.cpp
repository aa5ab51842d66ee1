#include "input/rows/padded_batch.hpp"

#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "input/rows/part.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/parts.hpp"

using namespace lockstep;
using detail::PaddedBatch;
using test::says;
using test::Values;
using test::vector_of;

namespace padded_batch_test {

Tensor batch_of(std::vector<Tensor> rows, const std::vector<detail::PaddedExtents>& extents = {},
                const std::vector<Scalar>& values = {}) {
  const auto batch =
      std::make_shared<const PaddedBatch>(test::columns_of({std::move(rows)}), extents, values, "a test");
  return detail::gather(detail::whole(batch), Device()).at(0);
}

}  // namespace padded_batch_test

using padded_batch_test::batch_of;

TEST_CASE("rows of every rank are padded at the end of each axis", "[input][host]") {
  CHECK(batch_of({Tensor::scalar(std::int64_t{1}), Tensor::scalar(std::int64_t{2})})
            .to_vector<std::int64_t>() == Values{1, 2});
  CHECK(batch_of({vector_of({1}), vector_of({}), vector_of({2, 3})}, {}, {-1}).to_vector<std::int64_t>() ==
        Values{1, -1, -1, -1, 2, 3});
  const Tensor wide = vector_of({1, 2, 3}).reshape(Shape(1, 3)),
               high = vector_of({4, 5}).reshape(Shape(2, 1));
  const Tensor both = batch_of({wide, high}, {}, {9});
  CHECK(both.shape() == Shape(2, 2, 3));
  CHECK(both.to_vector<std::int64_t>() == Values{1, 2, 3, 9, 9, 9, 4, 9, 9, 5, 9, 9});
  const Tensor fixed = batch_of({wide, high}, {{std::nullopt, 4}});
  CHECK(fixed.shape() == Shape(2, 2, 4));
  const Tensor deep = Tensor::ones(Shape(1, 0, 2), DType::i64);
  CHECK(batch_of({deep, Tensor::ones(Shape(0, 1, 1), DType::i64)}, {}, {7}).to_vector<std::int64_t>() ==
        Values(4, 7));
}

TEST_CASE("every dtype is padded, with zeros unless a value is given", "[input][host]") {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i8, DType::f16, DType::bf16, DType::f32,
                            DType::f64, DType::i16, DType::u64}) {
    CAPTURE(dtype);
    const Tensor padded = batch_of({Tensor::ones(Shape(1), dtype), Tensor::ones(Shape(2), dtype)});
    CHECK(padded.dtype() == dtype);
    CHECK(padded.cast(DType::i64).to_vector<std::int64_t>() == Values{1, 0, 1, 1});
    const Tensor ones = batch_of({Tensor::zeros(Shape(1), dtype), Tensor::zeros(Shape(2), dtype)}, {}, {1});
    CHECK(ones.cast(DType::i64).to_vector<std::int64_t>() == Values{0, 1, 0, 0});
  }
}

TEST_CASE("a part of a padded batch has its rows", "[input][host]") {
  const auto batch = std::make_shared<const PaddedBatch>(
      test::columns_of({{vector_of({1}), vector_of({2, 3}), vector_of({4})}}),
      std::vector<detail::PaddedExtents>{}, std::vector<Scalar>{}, "a test");
  std::vector<std::int64_t> rows(4);
  batch->copy_rows(0, {1, 3}, reinterpret_cast<std::byte*>(rows.data()));
  CHECK(rows == Values{2, 3, 4, 0});
}

TEST_CASE("rows that cannot be padded are refused", "[input][host]") {
  const Tensor one = vector_of({1}), square = vector_of({1}).reshape(Shape(1, 1));
  CHECK_THROWS_MATCHES(batch_of({one, square}), InvalidArgument,
                       says("a test: component 0 is [1, 1] int64 beside [1] int64"));
  CHECK_THROWS_MATCHES(batch_of({one, Tensor::ones(Shape(1))}), InvalidArgument, says("[1] float32 beside"));
  CHECK_THROWS_MATCHES(batch_of({vector_of({1, 2})}, {{1}}), InvalidArgument,
                       says("a row of component 0 has extent 2 in axis 0", "padded to 1"));
  CHECK_THROWS_MATCHES(batch_of({one}, {{2, 2}}), InvalidArgument,
                       says("has rank 1", "padded shape has rank 2"));
  CHECK_THROWS_MATCHES(batch_of({one}, {{2}, {2}}), InvalidArgument,
                       says("2 padded shapes for elements of 1"));
  CHECK_THROWS_MATCHES(batch_of({one}, {}, {1, 2}), InvalidArgument,
                       says("2 padding values for elements of 1"));
  CHECK_THROWS_MATCHES(batch_of({one}, {}, {0.5}), InvalidArgument,
                       says("component 0 is int64, which does not hold the padding value 0.5"));
}

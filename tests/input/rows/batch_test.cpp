#include "input/rows/batch.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "input/rows/row_tables.hpp"
#include "support/matchers.hpp"
#include "support/parts.hpp"

using namespace lockstep;
using detail::BatchHandle;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

namespace {

/// Rows of an i64 leaf.
Values rows_of(const BatchHandle& batch, std::size_t leaf, std::int64_t begin, std::int64_t end) {
  std::vector<detail::RowRange> rows(batch->num_leaves());
  rows[leaf] = {begin, end};
  return test::on_host({{batch, rows}})[leaf].to_vector<std::int64_t>();
}

}  // namespace

TEST_CASE("a batch of a table's rows copies any of them", "[input][host]") {
  const auto table = std::make_shared<const detail::TensorRows>(
      std::vector{Tensor::from(sequence(0, 10), {5, 2}), vector_of(sequence(10, 15))});
  const BatchHandle batch = std::make_shared<const detail::TableBatch>(table, Values{4, 0, 1});
  CHECK(batch->num_leaves() == 2);
  CHECK(batch->leaf(0).shape == Shape(3, 2));
  CHECK(describe(batch->leaf(1)) == "[3] int64");
  CHECK(rows_of(batch, 0, 0, 2) == Values{8, 9, 0, 1});
  CHECK(rows_of(batch, 1, 1, 3) == Values{10, 11});
  CHECK(rows_of(batch, 1, 2, 2).empty());
}

TEST_CASE("a batch of elements stacks them as they are copied", "[input][host]") {
  const Tensor matrix = Tensor::from<std::int64_t>({1, 2, 3, 4}, {2, 2});
  const BatchHandle batch = std::make_shared<const detail::StackedBatch>(
      test::columns_of({{matrix.narrow(1, 0, 1), matrix.narrow(1, 1, 2)},
                        {Tensor::scalar<std::int64_t>(5), Tensor::scalar<std::int64_t>(6)}}));
  CHECK(batch->leaf(0).shape == Shape(2, 2, 1));
  CHECK(batch->leaf(1).shape == Shape(2));
  CHECK(rows_of(batch, 0, 0, 2) == Values{1, 3, 2, 4});
  CHECK(rows_of(batch, 0, 1, 2) == Values{2, 4});
  CHECK(rows_of(batch, 1, 0, 2) == Values{5, 6});
}

TEST_CASE("elements that differ make no batch", "[input][host]") {
  const auto make = [](const Tensor& a, const Tensor& b) {
    return detail::StackedBatch(test::columns_of({{a, b}}));
  };
  CHECK_THROWS_MATCHES(make(Tensor::zeros({2}), Tensor::zeros({3})), InvalidArgument,
                       says("Dataset::batch: cannot stack [3] float32", "on [2] float32"));
  CHECK_THROWS_MATCHES(make(Tensor::zeros({2}), Tensor::zeros({2}, DType::f64)), InvalidArgument,
                       says("[2] float64"));
}

TEST_CASE("rows without bytes are copied as well", "[input][host]") {
  const BatchHandle batch = test::batch_of({Tensor::zeros({3, 0}, DType::i64)});
  CHECK(rows_of(batch, 0, 0, 3).empty());
  const BatchHandle stacked = std::make_shared<const detail::StackedBatch>(
      test::columns_of({{Tensor::zeros({0}, DType::i64), Tensor::zeros({0}, DType::i64)}}));
  CHECK(stacked->leaf(0).shape == Shape(2, 0));
  CHECK(rows_of(stacked, 0, 0, 2).empty());
}

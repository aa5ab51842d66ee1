#include "input/splitting.hpp"

#include <algorithm>
#include <array>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/error.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using detail::BalancedSplitPass;
using detail::CeilingSplitPass;
using test::all_elements;
using test::list_pass;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

namespace {

/// The numbers of rows of a batch's slices.
Values ceiling_sizes(std::int64_t num_rows, std::int64_t num_slices) {
  CeilingSplitPass split(list_pass({vector_of(sequence(0, num_rows))}), num_slices);
  Values sizes, rows;
  for (const Values& slice : all_elements(split)) {
    sizes.push_back(static_cast<std::int64_t>(slice.size()));
    rows.insert(rows.end(), slice.begin(), slice.end());
  }
  CHECK(rows == sequence(0, num_rows));
  return sizes;
}

}  // namespace

TEST_CASE("P18 ceiling slices are full while there are rows, and keep their order", "[input][host]") {
  CHECK(ceiling_sizes(32, 3) == Values{11, 11, 10});
  CHECK(ceiling_sizes(9, 4) == Values{3, 3, 3, 0});
  CHECK(ceiling_sizes(4, 3) == Values{2, 2, 0});
  CHECK(ceiling_sizes(5, 4) == Values{2, 2, 1, 0});
  CHECK(ceiling_sizes(6, 4) == Values{2, 2, 2, 0});
  CHECK(ceiling_sizes(7, 3) == Values{3, 3, 1});
  CHECK(ceiling_sizes(1, 4) == Values{1, 0, 0, 0});
  CHECK(ceiling_sizes(0, 2) == Values{0, 0});
  CHECK(ceiling_sizes(7, 1) == Values{7});
}

TEST_CASE("ceiling slices have the closed form for every number of rows", "[input][host]") {
  const std::int64_t num_rows = GENERATE(range(0, 66)), num_slices = GENERATE(1, 2, 3, 4, 7);
  const Values sizes = ceiling_sizes(num_rows, num_slices);
  REQUIRE(static_cast<std::int64_t>(sizes.size()) == num_slices);
  const std::int64_t most = (num_rows + num_slices - 1) / num_slices;
  for (std::int64_t i = 0; i < num_slices; ++i)
    CHECK(sizes[static_cast<std::size_t>(i)] == std::clamp<std::int64_t>(num_rows - i * most, 0, most));
}

TEST_CASE("every component is sliced by its own rows, and each batch afresh", "[input][host]") {
  std::vector<std::optional<detail::FlatElement>> batches;
  batches.push_back(detail::FlatElement{vector_of(sequence(0, 4)), Tensor::from(sequence(0, 12), {6, 2})});
  batches.push_back(detail::FlatElement{vector_of(sequence(4, 7)), Tensor::from(sequence(12, 14), {1, 2})});
  CeilingSplitPass split(std::make_unique<test::ListPass<detail::FlatElement>>(std::move(batches)), 3);
  const std::array<Shape, 6> first{Shape(2), Shape(2), Shape(0), Shape(1), Shape(1), Shape(1)};
  const std::array<Shape, 6> second{Shape(2, 2), Shape(2, 2), Shape(2, 2),
                                    Shape(1, 2), Shape(0, 2), Shape(0, 2)};
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto slice = split.next();
    REQUIRE(slice);
    CHECK(slice->at(0).shape() == first[i]);
    CHECK(slice->at(1).shape() == second[i]);
  }
  CHECK_FALSE(split.next());
}

TEST_CASE("a scalar component cannot be sliced", "[input][host]") {
  CeilingSplitPass ceiling(list_pass({Tensor::scalar(1.0f)}), 2);
  CHECK_THROWS_MATCHES(ceiling.next(), InvalidArgument,
                       says("scalar component, [] float32", "Batch the dataset first"));
  BalancedSplitPass balanced(list_pass({Tensor::scalar(1.0f)}), {1});
  CHECK_THROWS_MATCHES(balanced.next(), InvalidArgument, says("[] float32", "not rows of equal number"));
}

TEST_CASE("balanced slices cut the rows of all batches as one sequence", "[input][host]") {
  const std::vector<Tensor> batches{vector_of(sequence(0, 8)), vector_of(sequence(8, 14))};
  BalancedSplitPass split(list_pass(batches), {4, 4});
  CHECK(all_elements(split) ==
        std::vector<Values>{sequence(0, 4), sequence(4, 8), sequence(8, 12), sequence(12, 14)});

  const std::vector<Tensor> uneven{vector_of({0, 1, 2}), vector_of({}), vector_of({3}), vector_of({4, 5, 6})};
  BalancedSplitPass across(list_pass(uneven), {2, 3});
  CHECK(all_elements(across) == std::vector<Values>{{0, 1}, {2, 3, 4}, {5, 6}});
}

TEST_CASE("a balanced slice of size 0 reads no row", "[input][host]") {
  BalancedSplitPass split(list_pass({Tensor::from(sequence(0, 4), {2, 2})}), {0, 1});
  CHECK(split.next()->at(0).shape() == Shape(0, 2));
  CHECK(split.next()->at(0).to_vector<std::int64_t>() == Values{0, 1});
  CHECK(split.next()->at(0).shape() == Shape(0, 2));
  CHECK(split.next()->at(0).to_vector<std::int64_t>() == Values{2, 3});

  BalancedSplitPass ended(list_pass({vector_of({5})}), {1, 0});
  CHECK(all_elements(ended) == std::vector<Values>{{5}, {}});
  CHECK_FALSE(ended.next());  // the end has been seen: neither size gives a slice any more
  CHECK_FALSE(ended.next());
  BalancedSplitPass empty(list_pass({}), {0, 1});
  CHECK_FALSE(empty.next());
}

TEST_CASE("components with different numbers of rows cannot be balanced", "[input][host]") {
  std::vector<std::optional<detail::FlatElement>> batches;
  batches.push_back(detail::FlatElement{Tensor::zeros({4}), Tensor::zeros({3, 2})});
  BalancedSplitPass split(std::make_unique<test::ListPass<detail::FlatElement>>(std::move(batches)), {2});
  CHECK_THROWS_MATCHES(split.next(), InvalidArgument,
                       says("[4] float32", "[3, 2] float32", "AutoShardPolicy::data"));
}

TEST_CASE("an empty element keeps the other extents and the dtypes", "[input][host]") {
  const detail::FlatElement empty =
      detail::empty_like({Tensor::zeros({4, 3}, DType::f16), Tensor::zeros({2}, DType::u8)});
  CHECK(empty[0].shape() == Shape(0, 3));
  CHECK(empty[0].dtype() == DType::f16);
  CHECK(empty[1].shape() == Shape(0));
}

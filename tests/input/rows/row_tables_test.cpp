#include "input/rows/row_tables.hpp"

#include <algorithm>
#include <limits>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include "support/dtypes.hpp"
#include "support/expected.hpp"
#include "support/input.hpp"

using namespace lockstep;
using test::Values;

namespace {

Tensor gather(const detail::RowTable& table, std::size_t leaf, const Values& rows) {
  const detail::LeafType type = table.leaf(leaf, static_cast<std::int64_t>(rows.size()));
  Tensor result = Tensor::empty(type.shape, type.dtype, "CPU:0");
  table.gather(leaf, rows, static_cast<std::byte*>(result.data()));
  return result;
}

}  // namespace

TEST_CASE("rows are gathered in the order asked for, also several times", "[input][host]") {
  const Tensor matrix = Tensor::from(test::sequence(0, 10), {5, 2});
  const Tensor labels = test::vector_of({10, 11, 12, 13, 14});
  const detail::TensorRows table({matrix, labels});
  CHECK(table.num_rows() == 5);
  const Values rows{3, 4, 0, 0, 1, 2, 4};
  CHECK(table.num_leaves() == 2);
  CHECK(gather(table, 0, rows).shape() == Shape(7, 2));
  CHECK(gather(table, 0, rows).to_vector<std::int64_t>() == Values{6, 7, 8, 9, 0, 1, 0, 1, 2, 3, 4, 5, 8, 9});
  CHECK(gather(table, 1, rows).to_vector<std::int64_t>() == Values{13, 14, 10, 10, 11, 12, 14});
}

TEST_CASE("rows without elements are gathered as well", "[input][host]") {
  const detail::TensorRows table({Tensor::zeros({3, 0}), Tensor::zeros({3, 2})});
  CHECK(gather(table, 0, {2, 0}).shape() == Shape(2, 0));
  CHECK(gather(table, 1, {}).shape() == Shape(0, 2));
}

TEMPLATE_LIST_TEST_CASE("rows of every dtype are gathered", "[input][host]", test::AllTypes) {
  const auto tensor = [](const std::vector<TestType>& values, const Shape& shape) {
    if constexpr (std::same_as<TestType, bool>) {
      auto bytes = std::make_unique<bool[]>(values.size());
      std::copy(values.begin(), values.end(), bytes.get());
      return Tensor::from(std::span<const bool>(bytes.get(), values.size()), shape);
    } else {
      return Tensor::from(values, shape);
    }
  };
  const std::vector<TestType> values = test::pattern_values<TestType>(12);
  const detail::TensorRows table({tensor(values, {4, 3})});
  const std::vector<TestType> gathered = gather(table, 0, {2}).to_vector<TestType>();
  CHECK(gathered == std::vector<TestType>(values.begin() + 6, values.begin() + 9));
}

TEST_CASE("rows of a range are computed", "[input][host]") {
  const detail::RangeRows table(5, -3, 4);
  CHECK(table.num_rows() == 4);
  CHECK(gather(table, 0, {3, 0, 1}).to_vector<std::int64_t>() == Values{-4, 5, 2});
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(gather(detail::RangeRows(kLeast, kMost, 3), 0, {0, 1, 2}).to_vector<std::int64_t>() ==
        Values{kLeast, -1, kMost - 1});
}

#include "input/iterators/columns.hpp"

#include <stdexcept>

#include <catch2/catch_test_macros.hpp>

#include "input/rows/row_runs.hpp"
#include "support/input.hpp"

using namespace lockstep;
using detail::Columns;
using detail::FlatElement;
using detail::RowBlock;
using test::Values;
using test::vector_of;

namespace columns_test {

/// Gives blocks of two rows and elements in turn, and throws once.
class Mixed final : public detail::Iterator<FlatElement> {
 public:
  std::optional<FlatElement> next() override {
    if (number_ == 3) throw std::runtime_error(std::to_string(number_++));
    return number_ < 6 ? std::optional(FlatElement{vector_of({10 * number_++})}) : std::nullopt;
  }
  std::optional<RowBlock> next_rows(std::int64_t most) override {
    if (number_ % 2 == 1 || most < 2) return std::nullopt;
    if (number_ >= 6) return RowBlock{};
    const std::int64_t value = 10 * number_++;
    return RowBlock{{{Tensor::from<std::int64_t>({value, value + 1}, Shape(2, 1))}}, 2};
  }
  void transfer(detail::PassState&) override {}

 private:
  std::int64_t number_ = 0;
};

Values values_of(const Columns& columns) {
  const std::vector<std::vector<detail::RowRun>> taken = Columns(columns).take();
  Values values;
  for (const detail::RowRun& run : taken.at(0))
    for (std::int64_t row = 0; row < num_rows(run); ++row)
      values.push_back(row_of(run, row).to_vector<std::int64_t>().at(0));
  return values;
}

}  // namespace columns_test

using columns_test::Mixed;
using columns_test::values_of;

TEST_CASE("columns gather elements and blocks of rows in their order, and keep them if the input throws",
          "[input][host]") {
  Mixed input;
  Columns columns;
  CHECK_THROWS_AS(columns.fill(input, 20), std::runtime_error);
  CHECK(columns.num_rows() == 5);
  CHECK(values_of(columns) == Values{0, 1, 10, 20, 21});
  columns.fill(input, 6);
  CHECK(columns.num_rows() == 6);
  columns.fill(input, 20);
  CHECK(values_of(columns) == Values{0, 1, 10, 20, 21, 40, 50});

  detail::PassState saved;
  columns.transfer(saved);
  const std::string bytes = saved.take();
  detail::PassState read(bytes);
  Columns restored;
  restored.transfer(read);
  read.expect_end();
  CHECK(restored.num_rows() == 7);
  CHECK(values_of(restored) == values_of(columns));
  restored.add(FlatElement{vector_of({60})});
  CHECK(values_of(restored).back() == 60);
  static_cast<void>(restored.take());
  CHECK(restored.num_rows() == 0);
}

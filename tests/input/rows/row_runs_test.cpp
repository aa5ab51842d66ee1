#include "input/rows/row_runs.hpp"

#include <string>
#include <string_view>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/input/readers.hpp>

#include "support/input.hpp"

using namespace lockstep;
using detail::RowRun;
using detail::RunBuilder;
using test::Values;
using test::vector_of;

namespace row_runs_test {
RowRun run_of(const std::vector<std::string>& rows) {
  std::size_t size_bytes = 0;
  for (const std::string& row : rows) size_bytes += row.size();
  RunBuilder builder(static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(size_bytes));
  for (const std::string& row : rows) builder.add(row.data(), row.size());
  return std::move(builder).take();
}
}  // namespace row_runs_test

using row_runs_test::run_of;

TEST_CASE("rows of one length are a matrix, others have their ends", "[input][host]") {
  const RowRun even = run_of({"ab", "cd", "ef"});
  CHECK(even.ends.empty());
  CHECK(even.values.shape() == Shape(3, 2));
  CHECK(num_rows(even) == 3);
  CHECK(row_shape(even, 1) == Shape(2));
  CHECK(begin_of(even, 2) == 4);
  CHECK(readers::text(row_of(even, 2)) == "ef");

  const RowRun uneven = run_of({"", "abc", "d"});
  CHECK(uneven.ends == Values{0, 3, 4});
  CHECK(num_rows(uneven) == 3);
  CHECK(row_shape(uneven, 1) == Shape(3));
  CHECK(begin_of(uneven, 2) == 3);
  CHECK(readers::text(row_of(uneven, 0)).empty());
  CHECK(readers::text(row_of(uneven, 1)) == "abc");

  CHECK(run_of({"", ""}).values.shape() == Shape(2, 0));
  const RowRun one{vector_of({1, 2}), {}, true};
  CHECK(num_rows(one) == 1);
  CHECK(row_shape(one, 0) == Shape(2));
  CHECK(begin_of(one, 0) == 0);
  CHECK(row_of(one, 0).is_same_object(one.values));
}

TEST_CASE("the parts of runs are those in a range of rows", "[input][host]") {
  const std::vector<RowRun> runs{run_of({"a", "b", "c"}), {vector_of({1}), {}, true}, run_of({"d", "ee"})};
  using Parts = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto parts = [&](std::int64_t begin, std::int64_t end) {
    Parts result;
    detail::for_each_part(runs, begin, end, [&](std::int64_t from, std::int64_t to, const RowRun&) {
      result.emplace_back(from, to);
    });
    return result;
  };
  CHECK(parts(0, 6) == Parts{{0, 3}, {0, 1}, {0, 2}});
  CHECK(parts(1, 3) == Parts{{1, 3}});
  CHECK(parts(2, 5) == Parts{{2, 3}, {0, 1}, {0, 1}});
  CHECK(parts(4, 6) == Parts{{0, 2}});
  CHECK(parts(0, 0).empty());
}

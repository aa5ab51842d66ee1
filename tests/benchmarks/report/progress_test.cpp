#include "report/progress.hpp"

#include <sstream>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace lockstep::bench;
using Catch::Matchers::EndsWith;

TEST_CASE("a sweep's rows are counted over cycles, cases, sizes and roots", "[benchmarks]") {
  Options options;
  options.min_bytes = 1;
  options.max_bytes = 4;
  options.step_factor = 2;
  options.cases.resize(2);
  options.cycles = 3;
  CHECK(num_rows(options, {}, 4) == 3 * 2 * 3);
  CHECK(num_rows(options, {.has_root = true}, 4) == 3 * 2 * 3);
  options.root.reset();
  CHECK(num_rows(options, {.has_root = true}, 4) == 4 * 3 * 2 * 3);
  CHECK(num_rows(options, {}, 4) == 3 * 2 * 3);
  options.cycles = 0;
  CHECK(num_rows(options, {}, 4) == 0);
}

TEST_CASE("progress says the row, their number, and the time that the others may take", "[benchmarks]") {
  CHECK(progress_text(0, 12, 0) == "row 1 of 12");
  CHECK(progress_text(2, 12, 8) == "row 3 of 12, about 40 s left");
  CHECK(progress_text(2, 0, 8) == "row 3");
}

TEST_CASE("progress is erased before each row, and gone in the end", "[benchmarks]") {
  std::ostringstream out;
  {
    Progress progress(&out, 2);
    CHECK(out.str() == "# row 1 of 2");
    progress.erase();
    CHECK_THAT(out.str(), EndsWith("\r\033[K"));
    progress.row_done();
    CHECK_THAT(out.str(), EndsWith(" s left"));
    progress.erase();
    out << "a row";
    progress.row_done();
    progress.erase();
  }
  CHECK_THAT(out.str(), EndsWith("\r\033[Ka row"));
}

TEST_CASE("progress is erased when a sweep ends early", "[benchmarks]") {
  std::ostringstream out;
  { Progress progress(&out, 2); }
  CHECK_THAT(out.str(), EndsWith("\r\033[K"));
}

TEST_CASE("one row, or no terminal, needs no progress", "[benchmarks]") {
  std::ostringstream out;
  { Progress progress(&out, 1); }
  CHECK(out.str().empty());
  Progress nowhere(nullptr, 3);
  nowhere.erase();
  nowhere.row_done();
}

#include "digits/progress.hpp"

#include <sstream>
#include <string>

#include <catch2/catch_test_macros.hpp>

using namespace digits;

namespace {

const EpochReport kReport{.epoch = 3,
                          .training = {.loss = 0.12341, .num_correct = 975, .num_rows = 1000},
                          .test = {.loss = 0.5, .num_correct = 27, .num_rows = 28},
                          .images_per_second = 12345.6};
const std::string kLine =
    "epoch  3/10  loss 0.1234  train accuracy 97.5 %  test accuracy 96.4 %  12,345 images/s\n";

}  // namespace

TEST_CASE("progress is plain lines where there is no terminal", "[examples]") {
  std::ostringstream out;
  Progress progress(out, false, 10, 1000);
  progress.step(3, 500);
  CHECK(out.str().empty());
  progress.finish_epoch(kReport);
  CHECK(out.str() == kLine);
}

TEST_CASE("progress is a bar on a terminal, drawn when it grows and replaced by the line", "[examples]") {
  std::ostringstream out;
  Progress progress(out, true, 10, 1000);
  progress.step(3, 500);
  const std::string half = "\r\033[Kepoch  3/10  [####################....................]  500 images";
  CHECK(out.str() == half);
  progress.step(3, 510);
  CHECK(out.str() == half);
  progress.finish_epoch(kReport);
  CHECK(out.str() == half + "\r\033[K" + kLine);
  progress.step(4, 500);
  CHECK(out.str().find("epoch  4/10  [####################") != std::string::npos);
}

TEST_CASE("numbers are written for people", "[examples]") {
  CHECK(with_thousands(0) == "0");
  CHECK(with_thousands(999) == "999");
  CHECK(with_thousands(1000) == "1,000");
  CHECK(with_thousands(1234567) == "1,234,567");
  CHECK(with_thousands(-123456) == "-123,456");
  CHECK(percent(1) == "100.0 %");
}

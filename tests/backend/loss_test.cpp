#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/loss.hpp>

using lockstep::backend::Loss;

TEST_CASE("a loss knows since when the program knows of it", "[workers]") {
  Loss loss("worker 1 was lost");
  CHECK(loss.cause() == "worker 1 was lost");
  CHECK_FALSE(loss.was_told_before(Loss::now()));
  const Loss::Moment before = Loss::now();
  loss.tell();
  const Loss::Moment after = Loss::now();
  loss.tell();  // the first time counts
  CHECK_FALSE(loss.was_told_before(before));
  CHECK(loss.was_told_before(after));
}

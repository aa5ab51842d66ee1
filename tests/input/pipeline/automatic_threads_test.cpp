#include "input/pipeline/automatic_threads.hpp"

#include <catch2/catch_test_macros.hpp>

using lockstep::ParallelOptions;
using lockstep::detail::AutomaticThreads;

namespace automatic_threads_test {
/// Counts a window of elements of which some were short, and the others waited for or not.
void count(AutomaticThreads& threads, int num_short, bool others_were_ready) {
  for (int i = 0; i < AutomaticThreads::kWindow; ++i)
    threads.count(i < num_short, i >= num_short && others_were_ready);
}
const ParallelOptions kAutomatic{.num_parallel_calls = ParallelOptions::automatic};
}  // namespace automatic_threads_test

using automatic_threads_test::count;
using automatic_threads_test::kAutomatic;

TEST_CASE("an automatic number of threads grows while elements are waited for, up to the most",
          "[input][host]") {
  AutomaticThreads threads(kAutomatic, 3);
  CHECK(threads.is_automatic());
  CHECK(threads.num_threads() == 1);
  for (int i = 0; i + 1 < AutomaticThreads::kWindow; ++i) threads.count(true, false);
  CHECK(threads.num_threads() == 1);  // not before the window ends
  threads.count(true, false);
  CHECK(threads.num_threads() == 2);
  count(threads, AutomaticThreads::kMostWaits, true);
  CHECK(threads.num_threads() == 3);
  count(threads, AutomaticThreads::kWindow, true);
  CHECK(threads.num_threads() == 3);
}

TEST_CASE("an automatic number of threads stays while few elements are waited for, and falls if none is",
          "[input][host]") {
  AutomaticThreads threads(kAutomatic, 4);
  count(threads, AutomaticThreads::kWindow, false);
  count(threads, AutomaticThreads::kWindow, false);
  CHECK(threads.num_threads() == 3);
  count(threads, AutomaticThreads::kMostWaits - 1, true);
  CHECK(threads.num_threads() == 3);
  count(threads, 0, false);  // waited for, but not because there are too few threads
  CHECK(threads.num_threads() == 3);
  for (const int left : {2, 1, 1}) {
    count(threads, 0, true);
    CHECK(threads.num_threads() == left);
  }
}

TEST_CASE("a number of threads that is given stays", "[input][host]") {
  AutomaticThreads threads({.num_parallel_calls = 5}, 8);
  CHECK_FALSE(threads.is_automatic());
  count(threads, AutomaticThreads::kWindow, false);
  count(threads, 0, true);
  CHECK(threads.num_threads() == 5);
  CHECK(AutomaticThreads(kAutomatic, 0).num_threads() == 1);
  CHECK(AutomaticThreads::num_cores() >= 1);
}

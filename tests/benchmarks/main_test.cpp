#include <cstdlib>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>

namespace {

// The exit status of the benchmark's program. LOCKSTEP_BENCH is its path, given by the build.
int exit_status(const std::string& flags, const std::string& environment = {},
                const std::string& output = "/dev/null") {
  const int status =
      std::system((environment + " '" LOCKSTEP_BENCH "' " + flags + " 2>/dev/null >" + output).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("lockstep_bench exits with nccl-tests' statuses", "[benchmarks]") {
  CHECK(exit_status("all_reduce -b 1K -e 4K -f 2 --replicas 2 -n 2 --floor") == 0);
  CHECK(exit_status("--help") == 0);
  CHECK(exit_status("all_reduce -b 2M -e 1M") == 255);
  CHECK(exit_status("all_reduce -b lots") == 255);
  CHECK(exit_status("all_reduce --frobnicate") == 6);
  CHECK(exit_status("") == 6);
  CHECK(exit_status("all_reduce -G 1") == 5);
  CHECK(exit_status("hypercube") == 5);
  CHECK(exit_status("alltoall -b 1K -e 4K -f 2 --replicas 3 -n 2 --floor") == 0);
  CHECK(exit_status("merge_call -b 1K") == 6);
  CHECK(exit_status("reduce_scatter -b 1K -e 4K -f 2 --replicas 2 -n 2 --floor") == 0);
  CHECK(exit_status("batch_reduce --sizes 1K,20 --replicas 2 -n 2 --floor") == 0);
  CHECK(exit_status("step --floor") == 6);
  CHECK(exit_status("all_reduce -b 1K -e 1K --replicas 2 -n 2", "NCCL_TESTS_MIN_BW=1e9") == 7);
}

TEST_CASE("lockstep_bench fails where its report cannot be written", "[benchmarks]") {
  CHECK(exit_status("all_reduce -b 8 -e 8 --replicas 2 -n 2", {}, "/dev/full") == 1);
}

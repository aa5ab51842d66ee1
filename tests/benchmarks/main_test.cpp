#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "benchmarks/run_command.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using lockstep::bench::run_command;

namespace {

// LOCKSTEP_BENCH is the program's path, given by the build.
int exit_status(const std::string& flags, const std::string& environment = {},
                const std::string& output = "/dev/null") {
  return run_command(environment + " '" LOCKSTEP_BENCH "' " + flags + " >" + output).status;
}

// What the program prints, errors included.
std::string output(const std::string& flags, const std::string& environment = {}) {
  return run_command(environment + " '" LOCKSTEP_BENCH "' " + flags).output;
}

constexpr const char* kSmall = "all_reduce -b 1K -e 1K --replicas 2 -n 2 ";

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
  CHECK(exit_status("all_reduce -b 8 -e 8", "NCCL_TESTS_DEVICE=4096") == 5);
  CHECK(exit_status("alltoall -b 1K -e 4K -f 2 --replicas 3 -n 2 --floor") == 0);
  CHECK(exit_status("alltoallv -b 1K -e 4K -f 2 --replicas 3 -n 2 --floor") == 0);
  CHECK(exit_status("alltoallv -b 1K -e 1K", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE=/nowhere") == 1);
  CHECK(exit_status("all_reduce -b 1K -e 1K --replicas 2 -n 2 -r 7") == 0);
  CHECK(exit_status("merge_call -b 1K") == 6);
  CHECK(exit_status("reduce_scatter -b 1K -e 4K -f 2 --replicas 2 -n 2 --floor") == 0);
  CHECK(exit_status("batch_reduce --sizes 1K,20 --replicas 2 -n 2 --floor") == 0);
  CHECK(exit_status("step --floor") == 6);
  CHECK(exit_status("all_reduce -b 1K -e 1K --replicas 2 -n 2", "NCCL_TESTS_MIN_BW=1e9") == 7);
}

TEST_CASE("lockstep_bench fails where its report cannot be written", "[benchmarks]") {
  CHECK(exit_status("all_reduce -b 8 -e 8 --replicas 2 -n 2", {}, "/dev/full") == 1);
}

TEST_CASE("lockstep_bench says that it runs alone where a launcher is not understood", "[benchmarks]") {
  CHECK_THAT(output(kSmall, "PMIX_RANK=1"),
             ContainsSubstring("# This process runs alone") && ContainsSubstring("PMIX_RANK is '1'"));
  CHECK_THAT(output(kSmall), !ContainsSubstring("runs alone"));
}

TEST_CASE("lockstep_bench says what is wrong, and where the help is", "[benchmarks]") {
  CHECK_THAT(output("allreduce"),
             ContainsSubstring("the collective 'allreduce' is none of: all_reduce ") &&
                 EndsWith("\nlockstep_bench --help lists the collectives and options.\n"));
  CHECK_THAT(output("all_reduce --frobnicate"), !ContainsSubstring("--minbytes"));
}

TEST_CASE("lockstep_bench says which devices are missing", "[benchmarks]") {
  CHECK(output("all_reduce -b 8 -e 8 -g 3", "NCCL_TESTS_DEVICE=4094") ==
        "lockstep_bench: this process lacks CPU:4096, as it needs 3 devices from CPU:4094 on; use fewer "
        "ranks, or "
        "another NCCL_TESTS_DEVICE\n");
}

TEST_CASE("lockstep_bench says what it turned off", "[benchmarks]") {
  CHECK_THAT(output(std::string(kSmall) + "-K 1"),
             ContainsSubstring("lockstep_bench: -K (--per_iter_skip) 1 needs -I 1: it is turned off\n"));
}

TEST_CASE("lockstep_bench writes rows of a sweep without end as it goes", "[benchmarks]") {
  const auto path =
      std::filesystem::temp_directory_path() / ("lockstep_bench_endless_" + std::to_string(getpid()));
  std::filesystem::remove(path);
  const std::string bench =
      "'" LOCKSTEP_BENCH "' all_reduce -b 8 -e 8 --replicas 2 -N 0 -n 1 -J '" + path.string() + "'";
  // The reader leaves after 100 lines of rows: the program ends by a signal.
  REQUIRE(std::system((bench + " 2>/dev/null | head -n 120 >/dev/null").c_str()) == 0);
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  CHECK(json["results"].size() >= 100);
  CHECK_FALSE(json.contains("end_time"));
  std::filesystem::remove(path);
}

TEST_CASE("alltoallv sums up each rank's traffic when asked to", "[benchmarks]") {
  const std::string text =
      output("alltoallv -b 96 -e 96 --replicas 3 -n 2 -d int8", "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1");
  CHECK_THAT(text, ContainsSubstring("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=3 "
                                     "total_bytes=96 spread=1.000 time_usec=") &&
                       ContainsSubstring("#   rank=2 send_bytes=96 recv_bytes=96 alg_bw="));
}

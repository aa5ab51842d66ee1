// lockstep_bench in several processes: support/run_workers.sh, or mpirun, starts the program itself.
#include "processes/processes.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "benchmarks/processes/workers.hpp"
#include "operations/operation.hpp"

using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

// A path that the test removes.
struct Path {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("lockstep_bench_processes_" + std::to_string(getpid()));
  Path() = default;
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  ~Path() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("two workers print one table of all their ranks, with one floor", "[benchmarks]") {
  const Path report;
  const Ended ended = run_workers(
      2, kBench + "all_reduce -b 1K -e 4K -f 2 -g 2 -n 10 --floor -J '" + report.path.string() + "'");
  check_one_table(ended, 4, 3);
  CHECK(count(ended.output, "1: ") == 0);
  CHECK_THAT(ended.output,
             ContainsSubstring("over as large buffers, which all processes share, and floor / time"));
  for (const auto& row : rows_of(ended.output)) {
    REQUIRE(row.size() == kFloorRatio + 3);
    CHECK(std::stod(row[kFloorRatio]) > 0);
  }
  std::ifstream file(report.path);
  const auto json = nlohmann::json::parse(file);
  CHECK(json["results"].size() == 3);
  REQUIRE(json["config"]["devices"].size() == 4);
  std::set<int> pids;
  for (const auto& device : json["config"]["devices"]) pids.insert(device["pid"].get<int>());
  CHECK(pids.size() == 2);
  CHECK(json.contains("end_time"));
}

TEST_CASE("threads of several workers measure together", "[benchmarks]") {
  for (const char* average : {"0", "1", "2", "3"})
    check_one_table(run_workers(2, kBench + "all_reduce -b 1K -e 1K -t 2 -n 10 -a " + average), 4, 1);
}

TEST_CASE("every collective of two workers is checked on all ranks, beside its floor", "[benchmarks]") {
  for (const Traits& traits : all_traits()) {
    if (traits.is_strategy) continue;
    INFO(traits.name);
    check_one_table(run_workers(2, kBench + std::string(traits.name) + " -b 1K -e 1K -g 2 -n 2 -c 1 --floor"),
                    4, 1);
  }
}

TEST_CASE("every operation of a strategy of two workers is checked", "[benchmarks]") {
  for (const Traits& traits : all_traits()) {
    if (!traits.is_strategy || !traits.alone.empty()) continue;
    INFO(traits.name);
    std::string flags = " --replicas 2 -n 2";
    if (traits.has_shape) flags += " --shape 8,3,40";
    if (traits.has_size_list) flags += " --sizes 1K,20";
    check_one_table(run_workers(2, kBench + std::string(traits.name) + flags), 4, 1);
  }
}

TEST_CASE("NCCL_TESTS_SPLIT divides the ranks of all workers", "[benchmarks]") {
  const auto [split, group_of_rank_1, factor] = GENERATE(table<std::string, int, double>({
      {"MOD 2", 1, 4.0 / 3},  // {0, 2, 4} and {1, 3, 5}: each in all workers
      {"DIV 2", 0, 1.0},      // each in one worker
      {"DIV 3", 0, 4.0 / 3},  // {0, 1, 2} and {3, 4, 5}: each in two workers, which share the middle one
  }));
  INFO(split);
  const Ended ended =
      run_workers(3, kBench + "all_reduce -b 3M -e 3M -g 2 -n 2 --floor", "NCCL_TESTS_SPLIT='" + split + "'");
  check_one_table(ended, 6, 1);
  CHECK_THAT(ended.output, ContainsSubstring("#  Rank  1 Group  " + std::to_string(group_of_rank_1)));
  const auto row = rows_of(ended.output).at(0);
  const double algorithm = std::stod(row[6]), rounding = 0.005;  // GB/s: rows have two decimals
  CHECK(std::abs(std::stod(row[7]) / algorithm - factor) < 0.1 + rounding * (1 + factor) / algorithm);
}

TEST_CASE("a fault of the command line is said once, and the help printed once", "[benchmarks]") {
  const Ended wrong = run_workers(2, kBench + "all_reduce --frobnicate");
  INFO(wrong.output);
  CHECK(wrong.status == 6);
  CHECK(count(wrong.output, "lockstep_bench: ") == 1);
  CHECK_THAT(wrong.output, ContainsSubstring("0: lockstep_bench: The following argument was not expected"));
  const Ended help = run_workers(2, kBench + "--help");
  CHECK(help.status == 0);
  CHECK(count(help.output, "--minbytes") == 1);
}

TEST_CASE("workers with different command lines are refused", "[benchmarks]") {
  const Ended ended = run_workers(2, bash("exec " LOCKSTEP_BENCH " all_reduce -b 8 -e 8 -n 1$worker"));
  INFO(ended.output);
  CHECK(ended.status == 6);
  CHECK(count(ended.output, "lockstep_bench: ") == 1);
  CHECK_THAT(ended.output,
             ContainsSubstring("was started with 'all_reduce -b 8 -e 8 -n 11', worker 0 (") &&
                 ContainsSubstring("'all_reduce -b 8 -e 8 -n 10'; give all processes the same"));
}

TEST_CASE("a file that one worker cannot read is named with the worker", "[benchmarks]") {
  const Ended ended = run_workers(
      2,
      bash("cd \"$LOCKSTEP_TEST_FOLDER\"; [ $worker = 1 ] && cd /; [ $worker = 1 ] || echo \"0 64\n64 0\" > "
           "lockstep_matrix; exec " LOCKSTEP_BENCH " alltoallv -b 64 -e 64 -n 2"),
      "NCCL_TESTS_ALLTOALLV_MATRIX_FILE=lockstep_matrix");
  INFO(ended.output);
  CHECK(ended.status == 1);
  CHECK(count(ended.output, "lockstep_bench: ") == 1);
  CHECK_THAT(ended.output, ContainsSubstring("lockstep_bench: worker 1 (") &&
                               ContainsSubstring("NCCL_TESTS_ALLTOALLV_MATRIX_FILE 'lockstep_matrix'"));
}

TEST_CASE("what makes no sense in several workers is refused", "[benchmarks]") {
  const Ended input = run_workers(2, kBench + "input");
  CHECK(input.status == 6);
  CHECK_THAT(input.output, ContainsSubstring("input makes no sense in 2 processes: "));
  const Ended packed = run_workers(2, kBench + "batch_reduce --sizes 1K --algorithm packed");
  CHECK(packed.status == 6);
  CHECK_THAT(packed.output, ContainsSubstring("--algorithm packed makes no sense in 2 processes: "));
}

TEST_CASE("when a worker is killed the others end, and say which it was", "[benchmarks]") {
  const std::string operation = GENERATE("all_reduce -b 8 -e 8 -t 2", "step --replicas 2");
  // Worker 1 is killed once worker 0 has printed a row of an endless run.
  const Ended ended = run_workers(
      2,
      bash("table=\"$LOCKSTEP_TEST_FOLDER/table\"; " LOCKSTEP_BENCH " " + operation +
           " -N 0 -n 1 > \"$table$worker\" & bench=$!; if [ $worker = 1 ]; then until grep -qs \"^ *[08] \" "
           "\"${table}0\"; do sleep 0.02; done; kill -KILL $bench; wait $bench; exit 0; fi; wait $bench"));
  INFO(ended.output);
  CHECK(ended.status == 3);
  CHECK(count(ended.output, "0: lockstep_bench: ") == 1);
  CHECK_THAT(ended.output, ContainsSubstring("worker 1 (127.0.0.1:") && ContainsSubstring(" was lost"));
}

TEST_CASE("a worker that cannot listen says so, and ends", "[benchmarks]") {
  const Ended ended = run_command(
      R"(TF_CONFIG='{"cluster": {"worker": ["192.0.2.1:5000", "192.0.2.2:5000"]}, "task": {"type": "worker", "index": 0}}' )" +
      kBench + "all_reduce -b 8 -e 8");
  INFO(ended.output);
  CHECK(ended.status == 1);
  CHECK_THAT(ended.output, ContainsSubstring("lockstep_bench: Worker 0 cannot listen on '192.0.2.1:5000'"));
}

TEST_CASE("workers on several hosts are measured through an engine, and have no floor", "[benchmarks]") {
  const std::string on_own_hosts = "'" LOCKSTEP_TEST_SUPPORT "/on_own_host.sh' " + kBench;
  const Ended ended = run_workers(2, on_own_hosts + "all_reduce -b 1K -e 4K -f 2 -g 2 -n 2");
  if (ended.status == 5) SKIP("there is no engine: " + ended.output);
  check_one_table(ended, 4, 3);
  const Ended floor = run_workers(2, on_own_hosts + "all_reduce -b 1K -e 1K -n 2 --floor");
  CHECK(floor.status == 5);
  CHECK_THAT(floor.output, ContainsSubstring("--floor: the processes are on several hosts"));
}

TEST_CASE("processes of mpirun print one table, and a fault once", "[benchmarks]") {
  // The build gives LOCKSTEP_MPIEXEC, which may be empty.
  const std::string mpirun =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 120 '" LOCKSTEP_MPIEXEC
      "' --oversubscribe --bind-to none ";
  if (run_command("'" LOCKSTEP_MPIEXEC "' --version | grep -q 'Open MPI\\|OpenRTE'").status != 0)
    SKIP("there is no mpirun of Open MPI's");
  check_one_table(run_command(mpirun + "-np 3 " + kBench + "all_reduce -b 1K -e 4K -f 2 -n 2 --floor"), 3, 3);
  check_one_table(run_command(mpirun + "-np 2 " + kBench + "run_all_reduce --replicas 2 -n 2"), 4, 1);
  const Ended wrong = run_command(mpirun + "-np 2 " + kBench + "all_reduce --frobnicate");
  INFO(wrong.output);
  CHECK(wrong.status == 6);
  CHECK(count(wrong.output, "lockstep_bench: ") == 1);
}

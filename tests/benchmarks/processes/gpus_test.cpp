// lockstep_bench on the virtual GPUs of several processes. Races and leaks make it fail.
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "benchmarks/processes/workers.hpp"
#include "operations/operation.hpp"

using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;

namespace {

// LOCKSTEP_VGPU_RUN is the path of vgpu-run, given by the build.
std::string bench_on(int num_gpus, const std::string& options = "--racecheck --leakcheck") {
  return "'" LOCKSTEP_VGPU_RUN "' -n " + std::to_string(num_gpus) + " --deadlock-ms 20000 " + options +
         " -- " + kBench;
}

constexpr const char* kSmall = " --backend cuda -b 1K -e 1K -n 2 ";

// The GPU of each rank, as the table's header says.
std::vector<int> gpus_of(const std::string& text) {
  std::vector<int> gpus;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0: #  Rank "))
      gpus.push_back(std::stoi(line.substr(line.find(" device ") + std::string(" device ").size())));
  return gpus;
}

}  // namespace

TEST_CASE("every collective of two workers with GPUs is checked on all ranks, beside a copy",
          "[benchmarks]") {
  const int gpus_per_worker = GENERATE(1, 2);
  for (const Traits& traits : all_traits()) {
    if (traits.is_strategy) continue;
    INFO(traits.name);
    const Ended ended = run_workers(2, bench_on(2 * gpus_per_worker) + std::string(traits.name) + kSmall +
                                           "--floor -g " + std::to_string(gpus_per_worker));
    check_one_table(ended, 2 * gpus_per_worker, 1);
    CHECK_THAT(ended.output, ContainsSubstring("# Floor: the time of each rank's copy, "));
    CHECK(std::stod(rows_of(ended.output).at(0).at(kFloorRatio)) > 0);
  }
}

TEST_CASE("a worker's GPUs follow those of the workers before it on its host", "[benchmarks]") {
  const auto gpus = [](int num_gpus, const std::string& ranks) {
    const Ended ended = run_workers(2, bench_on(num_gpus) + "all_reduce" + kSmall + ranks);
    check_one_table(ended, num_gpus, 1);
    return gpus_of(ended.output);
  };
  CHECK(gpus(2, "") == std::vector{0, 1});
  CHECK(gpus(4, "--replicas 2") == std::vector{0, 1, 2, 3});
  CHECK(gpus(8, "-t 2 -g 2") == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("every operation of a strategy of two workers with GPUs is checked", "[benchmarks]") {
  for (const Traits& traits : all_traits()) {
    if (!traits.is_strategy || !traits.alone.empty()) continue;
    INFO(traits.name);
    std::string flags = " --backend cuda --replicas 2 -n 2";
    if (traits.has_shape) flags += " --shape 8,3,40";
    if (traits.has_size_list) flags += " --sizes 1K,20";
    if (traits.has_size && !traits.has_shape && !traits.has_size_list) flags += " -b 1K -e 1K";
    if (!traits.floor.empty()) flags += " --floor";
    const Ended ended = run_workers(2, bench_on(4) + std::string(traits.name) + flags);
    check_one_table(ended, 4, 1);
    CHECK(gpus_of(ended.output) == std::vector{0, 1, 2, 3});
  }
}

TEST_CASE("NCCL_TESTS_SPLIT divides the GPUs of all workers", "[benchmarks]") {
  const auto [split, group_of_rank_1] = GENERATE(table<std::string, int>({
      {"MOD 2", 1},  // {0, 2, 4} and {1, 3, 5}: each in all workers
      {"DIV 2", 0},  // each in one worker
      {"DIV 3", 0},  // {0, 1, 2} and {3, 4, 5}: each in two workers, which share the middle one
  }));
  INFO(split);
  const Ended ended = run_workers(3, bench_on(6) + "all_reduce" + kSmall + "-g 2 --floor",
                                  "NCCL_TESTS_SPLIT='" + split + "'");
  check_one_table(ended, 6, 1);
  CHECK_THAT(ended.output, ContainsSubstring("#  Rank  1 Group  " + std::to_string(group_of_rank_1)));
}

TEST_CASE("which workers lack which GPUs is said once", "[benchmarks]") {
  const Ended few = run_workers(3, bench_on(3) + "all_reduce" + kSmall + "-g 2");
  INFO(few.output);
  CHECK(few.status == 5);
  CHECK(count(few.output, "lockstep_bench: ") == 1);
  CHECK_THAT(
      few.output,
      Matches("[^]*0: lockstep_bench: worker 1 \\(127\\.0\\.0\\.1:[0-9]+\\) lacks GPU:3; worker 2 "
              "\\(127\\.0\\.0\\.1:[0-9]+\\) lacks GPU:4, GPU:5, as each process needs 2 devices, [^]*"));
  const Ended alone = run_command(bench_on(3) + "all_reduce" + kSmall + "-g 4");
  INFO(alone.output);
  CHECK(alone.status == 5);
  CHECK_THAT(
      alone.output,
      ContainsSubstring("lockstep_bench: this process lacks GPU:3, as it needs 4 devices from GPU:0 on; "));
}

TEST_CASE("workers of a host that NCCL_TESTS_DEVICE gives one GPU are told so", "[benchmarks]") {
  const Ended ended = run_workers(2, bench_on(2) + "all_reduce" + kSmall, "NCCL_TESTS_DEVICE=1");
  INFO(ended.output);
  CHECK(ended.status == 1);
  CHECK_THAT(ended.output,
             ContainsSubstring("lockstep_bench: A communicator of 2 GPUs in 2 processes: GPU:1 of "
                               "worker 0 (") &&
                 ContainsSubstring(" are the same GPU, "));
}

TEST_CASE("the first worker of each host takes its first GPU", "[benchmarks]") {
  const Ended ended = run_workers(
      2, "'" LOCKSTEP_TEST_SUPPORT "/on_own_host.sh' " + bench_on(4) + "all_reduce" + kSmall + "-g 2");
  if (ended.status == 5) SKIP("there is no engine: " + ended.output);
  // They say that they are on two hosts, but have the GPUs of one.
  CHECK_THAT(ended.output,
             Matches("[^]*: GPU:0 of worker 0 \\([^\n]* and GPU:0 of worker 1 \\([^\n]* are the "
                     "same GPU, [^]*"));
}

TEST_CASE("a GPU that one worker cannot use is named in all", "[benchmarks]") {
  const std::string operation = GENERATE("all_reduce -b 8 -e 8", "step");
  const Ended ended = run_workers(2, bench_on(2) + operation + " --backend cuda -n 2",
                                  "VGPU_COMPUTE_MODE=default,prohibited");
  INFO(ended.output);
  CHECK(ended.status != 0);
  CHECK_THAT(ended.output, ContainsSubstring("1: lockstep_bench: Making the device current on GPU:1: "));
  CHECK_THAT(ended.output,
             Matches("[^]*0: lockstep_bench: [^\n]*worker 1 \\(127\\.0\\.0\\.1:[0-9]+\\) could not go "
                     "on: Making the device current on GPU:1: [^]*"));
}

TEST_CASE("workers with GPUs do not share their memory", "[benchmarks]") {
  const auto largest_bytes = [](int workers) {
    const Ended ended =
        run_workers(workers, bench_on(workers, "--memory 16") +
                                 "all_reduce --backend cuda -b 1M -e 64M -f 64 -n 1 -w 0 -c 0 --floor");
    INFO(ended.output);
    REQUIRE(ended.status == 0);
    const std::string cut = "# Reducing maxBytes to ";
    REQUIRE(count(ended.output, cut) == 1);
    return std::stoll(ended.output.substr(ended.output.find(cut) + cut.size()));
  };
  const std::int64_t alone = largest_bytes(1);
  CHECK(alone > 4 << 20);
  CHECK(largest_bytes(2) == alone);
}

TEST_CASE("when a worker with a GPU is killed the others end, and say which it was", "[benchmarks]") {
  const std::string operation = GENERATE("all_reduce -b 8 -e 8", "step");
  // Worker 1 is killed once worker 0 has printed a row of an endless run.
  const Ended ended = run_workers(
      2,
      bash(
          "table=\"$LOCKSTEP_TEST_FOLDER/table\"; " LOCKSTEP_VGPU_RUN " -n 2 -- " LOCKSTEP_BENCH " " +
          operation +
          " --backend cuda -N 0 -n 1 > \"$table$worker\" & bench=$!; if [ $worker = 1 ]; then until grep -qs "
          "\"^ *[08] \" \"${table}0\"; do sleep 0.02; done; kill -KILL $bench; wait $bench; exit 0; fi; wait "
          "$bench"));
  INFO(ended.output);
  CHECK(ended.status == 3);
  CHECK(count(ended.output, "0: lockstep_bench: ") == 1);
  CHECK_THAT(ended.output, ContainsSubstring("worker 1 (127.0.0.1:") && ContainsSubstring(" was lost"));
}

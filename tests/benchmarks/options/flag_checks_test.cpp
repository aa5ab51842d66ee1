#include "options/flag_checks.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/version.hpp>

#include "benchmarks/options/parse.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("flags without a meaning on the host are refused, unless they have their default", "[benchmarks]") {
  for (const char* flags : {"-p 1", "-y 1", "-G 10", "-R 1", "-R 2", "-x 1", "-D 1 -R 2", "-V 32"}) {
    INFO(flags);
    const Refusal refused = refusal(flags);
    CHECK(refused.status == 5);
    CHECK_THAT(refused.message, ContainsSubstring("cannot be used with --backend host: "));
    CHECK(refused.message.find('\n') == std::string::npos);
  }
  CHECK_THAT(refusal("-G 10").message, ContainsSubstring("-G (--cudagraph)"));
  CHECK(refusal("-D 1").status == 255);
  CHECK_THAT(refusal("-D 1").message, ContainsSubstring("needs -R 2"));
}

TEST_CASE("graphs are of collectives between GPUs, whose launches are timed as wholes", "[benchmarks]") {
  CHECK(parse("-G 0").graph_launches == 0);
  CHECK(refusal("-G -1").status == 6);
  CHECK_THAT(refusal("run -G 1").message, ContainsSubstring("cannot be used with --backend host"));
  if (LOCKSTEP_HAS_CUDA == 0) return;
  CHECK(parse("--backend cuda -G 3").graph_launches == 3);
  for (const char* other : {"-I 1", "-z 1", "--count"})
    CHECK_THAT(refusal(std::string("--backend cuda -G 3 ") + other).message,
               ContainsSubstring("a launch has all iterations"));
  CHECK_THAT(refusal("run --backend cuda -G 1").message,
             ContainsSubstring("--cudagraph makes no sense with run: a function of a strategy makes graphs"));
}

TEST_CASE("the CTA policy may be nccl-tests' default", "[benchmarks]") {
  CHECK_NOTHROW(parse("-x -1"));
  CHECK_NOTHROW(parse("-x 0"));
}

TEST_CASE("a floor on GPUs is compared with whole times alone", "[benchmarks]") {
  CHECK(parse("--floor -C 1").floor);  // on the host a call's time is the operation's
  if (LOCKSTEP_HAS_CUDA == 0) return;
  CHECK(refusal("--backend cuda --floor -C 1").status == 5);
  CHECK_THAT(refusal("--backend cuda --floor -C 1").message,
             ContainsSubstring("--floor with -C 1 cannot be used with --backend cuda: "));
}

TEST_CASE("work is counted on virtual GPUs alone", "[benchmarks]") {
  CHECK(refusal("--count").status == 5);
  CHECK_THAT(
      refusal("--count").message,
      ContainsSubstring("--count cannot be used with --backend host: ") &&
          ContainsSubstring("start it as 'vgpu-run -n GPUS lockstep_bench ... --backend cuda --count'"));
  if (LOCKSTEP_HAS_CUDA != 0) CHECK(parse("--backend cuda --count").count);
}

TEST_CASE("a floor is another one on GPUs where the operation says so", "[benchmarks]") {
  const Traits same{.floor = "a loop"}, other{.floor = "a loop", .gpu_floor = "a copy"};
  CHECK(same.floor_on(DeviceKind::gpu) == "a loop");
  CHECK(other.floor_on(DeviceKind::gpu) == "a copy");
  CHECK(other.floor_on(DeviceKind::cpu) == "a loop");
}

TEST_CASE("options that mean nothing to an operation are usage errors that name both", "[benchmarks]") {
  for (const char* flags : {"run -b 1K",
                            "run -e 1K",
                            "run -i 4",
                            "run -f 2",
                            "run -d half",
                            "run -o sum",
                            "run -r 0",
                            "run -g 1",
                            "run -u 1",
                            "run --floor",
                            "update --floor",
                            "batch_reduce --sizes 4 --floor",
                            "run --sizes 4",
                            "run --shape 1,2,3",
                            "update -o sum",
                            "update -r 0",
                            "axis_reduce --sizes 4",
                            "axis_reduce --sizes_file x",
                            "batch_reduce --sizes 4 -b 8",
                            "batch_reduce --sizes 4 -f 2",
                            "batch_reduce --sizes 4 --shape 1,2,3",
                            "all_reduce --shape 1,2,3",
                            "all_reduce --sizes 1"}) {
    INFO(flags);
    const Refusal refused = refusal(flags);
    const std::string operation = std::string(flags).substr(0, std::string(flags).find(' '));
    CHECK(refused.status == 6);
    CHECK_THAT(refused.message, ContainsSubstring(" makes no sense with " + operation + ": "));
  }
  CHECK_THAT(refusal("run -b 1K").message, ContainsSubstring("--minbytes makes no sense"));
  // nccl-tests ignores these, too
  CHECK(parse("broadcast -o prod").cases.size() == 1);
  CHECK(parse("broadcast -o all -d all").cases.size() == 12);
  for (const char* root : {"0", "7", "x", "-1", "all"})
    CHECK(parse(std::string("all_reduce -r ") + root).root == 0);
}

TEST_CASE("a strategy's operations have a floor where they say what it is", "[benchmarks]") {
  CHECK(parse("axis_reduce --floor").floor);
  CHECK_THAT(refusal("update --floor").message, ContainsSubstring("--floor makes no sense with update"));
}

TEST_CASE("ranks are counted over all processes, -t times -g in each", "[benchmarks]") {
  const Launch second{.process = 1, .num_processes = 3};
  const Options options = parse("-t 2 -g 2", {}, second);
  CHECK(options.num_local_ranks() == 4);
  CHECK(options.num_ranks() == 12);
  CHECK(options.first_rank() == 4);
  CHECK(parse("--replicas 2", {}, second).num_ranks() == 6);
  CHECK(parse("-t 64 -g 64").num_ranks() == 4096);
  const Refusal refused = refusal("-t 64 -g 64", {}, second);
  CHECK(refused.status == 6);
  CHECK_THAT(refused.message,
             ContainsSubstring("-t 64 times -g 64 in each of 3 processes is more than 4096 ranks"));
}

TEST_CASE("what several processes cannot measure is refused", "[benchmarks]") {
  const Launch first{.process = 0, .num_processes = 2};
  CHECK(refusal("input").status == 0);
  CHECK(refusal("input", {}, first).status == 6);
  CHECK(refusal("input", {}, first).message == "input makes no sense in 2 processes: it is the only one");
  CHECK(refusal("batch_reduce --sizes 1K --algorithm packed", {}, first).status == 6);
  CHECK(refusal("batch_reduce --sizes 1K --algorithm rank_order", {}, first).status == 0);
  if (LOCKSTEP_HAS_CUDA == 0) return;
  CHECK(refusal("--backend cuda", {}, first).status == 0);
  CHECK(refusal("--backend cuda --virtual 2").status == 0);
  CHECK(refusal("--backend cuda --virtual 2", {}, first).status == 5);
  CHECK(refusal("--backend cuda --virtual 2", {}, first).message ==
        "--virtual in several processes cannot be used with --backend cuda: NCCL joins the processes, and "
        "takes a GPU once; start one process, or give each rank a GPU");
}

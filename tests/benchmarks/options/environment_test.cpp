#include "options/environment.hpp"

#include <map>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/version.hpp>

#include "benchmarks/options/parse.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a split keeps the root in every group, and strategies whole", "[benchmarks]") {
  const std::map<std::string, std::string> halves{{"NCCL_TESTS_SPLIT", "MOD 2"}};
  CHECK(parse("broadcast --replicas 4 -r 1", halves).root == 1);
  CHECK(refusal("broadcast --replicas 4 -r 2", halves).status == 6);
  CHECK_THAT(refusal("broadcast --replicas 4 -r 2", halves).message,
             ContainsSubstring("-r (--root) 2 names a rank that a group of 2 ranks"));
  CHECK(refusal("broadcast --replicas 3 -r all", halves).status == 6);
  CHECK(parse("broadcast --replicas 4 -r all", halves).split.color(3) == 1);
  CHECK(parse("all_reduce --replicas 4 -r 3", halves).split.color(3) == 1);
  CHECK(refusal("run --replicas 4", halves).status == 6);
  CHECK(parse("all_gather --replicas 4", halves).split.color(3) == 1);
  CHECK(parse("all_reduce --replicas 5", halves).split.color(3) == 1);
  CHECK(refusal("all_gather --replicas 5", halves).status == 6);
  CHECK_THAT(refusal("all_gather --replicas 5", halves).message, ContainsSubstring("groups of 2 to 3 ranks"));
}

TEST_CASE("a device's number is one that there can be", "[benchmarks]") {
  CHECK(parse("", {{"NCCL_TESTS_DEVICE", "3"}}).first_device == 3);
  for (const char* number : {"1e300", "inf", "1048576"}) {
    CHECK(refusal("", {{"NCCL_TESTS_DEVICE", number}}).status == 6);
    CHECK_THAT(refusal("", {{"NCCL_TESTS_DEVICE", number}}).message,
               ContainsSubstring("is no device's number"));
  }
}

TEST_CASE("a process's GPUs follow those of the processes before it on its host", "[benchmarks]") {
  const Launch third{.process = 6, .num_processes = 8, .index_on_host = 2};
  CHECK(parse("--replicas 4", {}, third).first_device == 0);  // host replicas are each process's own
  if (LOCKSTEP_HAS_CUDA == 0) return;
  CHECK(parse("--backend cuda", {}, third).first_device == 2);
  CHECK(parse("--backend cuda -t 2 -g 2", {}, third).first_device == 8);
  CHECK(parse("--backend cuda -t 2 -g 2", {{"NCCL_TESTS_DEVICE", "0"}}, third).first_device == 0);
  CHECK(parse("--backend cuda -t 2 -g 2").first_device == 0);
}

TEST_CASE("the environment sets first device, pass mark and split", "[benchmarks]") {
  CHECK(parse("", {{"NCCL_TESTS_DEVICE", "3"}}).first_device == 3);
  CHECK(parse("", {{"NCCL_TESTS_MIN_BW", "12.5"}}).pass_mark_gbps == 12.5);
  const auto color = [](const char* variable, const char* text) {
    return parse("", {{variable, text}}).split.color(5);
  };
  CHECK(color("NCCL_TESTS_SPLIT", "AND 0x3") == 1);
  CHECK(color("NCCL_TESTS_SPLIT", "AND 0b100") == 4);
  CHECK(color("NCCL_TESTS_SPLIT", "MOD0B11") == 2);
  CHECK(color("NCCL_TESTS_SPLIT", "OR 2") == 7);
  CHECK(color("NCCL_TESTS_SPLIT", "MOD 3") == 2);
  CHECK(color("NCCL_TESTS_SPLIT", "DIV2") == 2);
  CHECK(color("NCCL_TESTS_SPLIT", "&4") == 4);
  CHECK(color("NCCL_TESTS_SPLIT", "|8") == 13);
  CHECK(color("NCCL_TESTS_SPLIT", "%2") == 1);
  CHECK(color("NCCL_TESTS_SPLIT", "/4") == 1);
  CHECK(color("NCCL_TESTS_SPLIT", "mod 3") == 2);
  CHECK(color("NCCL_TESTS_SPLIT_MASK", "6") == 4);
  CHECK(color("NCCL_TESTS_SPLIT_MASK", "0x6") == 4);
  CHECK(parse("").split.color(5) == 0);
  for (const auto& [variable, text] :
       std::multimap<std::string, std::string>{{"NCCL_TESTS_DEVICE", "first"},
                                               {"NCCL_TESTS_MIN_BW", "-1"},
                                               {"NCCL_TESTS_SPLIT", "XOR 3"},
                                               {"NCCL_TESTS_SPLIT", "AND 0b"},
                                               {"NCCL_TESTS_SPLIT_MASK", "zz"}}) {
    CHECK(refusal("", {{variable, text}}).status == 6);
    CHECK_THAT(refusal("", {{variable, text}}).message, ContainsSubstring(variable));
  }
  CHECK(refusal("", {{"NCCL_TESTS_SPLIT", "MOD 0"}}).status == 6);
}

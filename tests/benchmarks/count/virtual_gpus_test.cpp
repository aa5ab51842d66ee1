// lockstep_bench --count on virtual GPUs.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "benchmarks/processes/workers.hpp"
#include "operations/operation.hpp"
#include "report/report.hpp"

using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using Json = nlohmann::json;

namespace {

// LOCKSTEP_VGPU_RUN is the path of vgpu-run, given by the build.
std::string bench_on(int num_gpus) {
  return "'" LOCKSTEP_VGPU_RUN "' -n " + std::to_string(num_gpus) + " --deadlock-ms 20000 -- " + kBench;
}

struct Counts {
  std::vector<std::vector<std::string>> rows;
  Json results;
};

Counts count(int num_gpus, const std::string& flags) {
  const auto path =
      std::filesystem::temp_directory_path() / ("lockstep_bench_counts_" + std::to_string(getpid()));
  std::filesystem::remove(path);
  const Ended ended =
      run_command(bench_on(num_gpus) + flags + " --backend cuda --count -w 1 -J '" + path.string() + "'");
  INFO(ended.output);
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.output, ContainsSubstring("# Counted, per operation, on all ranks: "));
  std::ifstream file(path);
  Counts counts{rows_of(ended.output), Json::parse(file)["results"]};
  std::filesystem::remove(path);
  REQUIRE(!counts.rows.empty());
  return counts;
}

Json out_of_place(int num_gpus, const std::string& flags) {
  return count(num_gpus, flags).results[0]["out_of_place"]["counted"];
}

}  // namespace

TEST_CASE("every operation is counted on GPUs and on virtual devices of one", "[benchmarks]") {
  for (const Traits& traits : all_traits()) {
    std::string flags(traits.name);
    if (traits.has_shape) flags += " --shape 8,3,40";
    if (traits.has_size_list) flags += " --sizes 1K,20";
    if (traits.has_size && !traits.has_shape && !traits.has_size_list) flags += " -b 1K -e 1K";
    flags += traits.name == "input" ? " -n 20" : " -n 2";  // batches are copied ahead
    for (const char* ranks : {" --virtual 2", " --replicas 2"}) {
      INFO(flags << ranks);
      const auto [rows, results] = count(2, flags + ranks);
      REQUIRE(rows[0].size() == 13 + 8);
      for (const auto& [placement, first] : {std::pair{"out_of_place", 13}, std::pair{"in_place", 17}}) {
        const Json& counted = results[0][placement]["counted"];
        const auto printed = [&](const char* name) {
          if (counted[name].is_null()) return std::string("N/A");
          const std::string text = fit_number(counted[name], 8);
          return text.substr(text.find_first_not_of(' '));
        };
        const char* const names[] = {"ratio", "launches", "calls", "waits"};
        for (std::size_t i = 0; i < 4; ++i)
          CHECK(rows[0][static_cast<std::size_t>(first) + i] == printed(names[i]));
        const bool moves = counted["least_bytes"] > 0;
        CHECK(moves == !counted["ratio"].is_null());
        CHECK(moves == (traits.name != "run" && traits.name != "merge_call"));
        if (moves) CHECK(counted["sectors"] > 0);
        CHECK(counted["waits"] <= counted["calls"]);
      }
    }
  }
}

TEST_CASE("an all_reduce on virtual devices is one launch that moves what it must", "[benchmarks]") {
  const Json counted = out_of_place(1, "all_reduce --virtual 4 -b 64K -e 64K -n 3");
  CHECK(counted["launches"] == 1);
  CHECK(counted["least_bytes"] == 2 * 4 * 65536);
  CHECK(counted["sectors"] == 2 * 4 * 65536 / 32);
  CHECK(counted["ratio"] == 1);
  CHECK(counted["waits"] == 0);
  CHECK(counted["calls"] > 4);  // each rank's stream waits and is waited for
}

TEST_CASE("counts are of one operation, whatever the iterations, and not of the floor", "[benchmarks]") {
  const Json once = out_of_place(1, "all_reduce --virtual 2 -b 4K -e 4K -n 1");
  CHECK(out_of_place(1, "all_reduce --virtual 2 -b 4K -e 4K -n 12 --floor -c 0") == once);
  const Json batch = out_of_place(1, "all_reduce --virtual 2 -b 4K -e 4K -n 2 -m 4 -t 1 -g 2");
  CHECK(batch["launches"] == once["launches"]);
  CHECK(batch["sectors"] == once["sectors"]);
}

TEST_CASE("a wait after each iteration is counted", "[benchmarks]") {
  const Json counted = out_of_place(1, "all_reduce --virtual 2 -b 4K -e 4K -n 2 -z 2");
  CHECK(counted["waits"] == 2);
}

TEST_CASE("a strategy's operations are compared with what they must move", "[benchmarks]") {
  const double update = out_of_place(2, "update --replicas 2 -b 64K -e 64K -n 2")["least_bytes"];
  CHECK_THAT(update, WithinRel(3 * 2 * 65536.0));
  const Json reduce = out_of_place(1, "axis_reduce --shape 4,16,8 -n 2");
  CHECK(reduce["least_bytes"] == (4 * 16 * 8 + 4 * 8) * 4);
  CHECK(out_of_place(2, "batch_reduce --sizes 1K,2K --replicas 2 -n 2")["least_bytes"] == 2 * 2 * 3072);
  CHECK(out_of_place(2, "step --replicas 2 -n 2")["least_bytes"] == 5 * 20 * 4096 * 2);
}

TEST_CASE("a host has nothing that counts", "[benchmarks]") {
  const Ended ended = run_command(kBench + "all_reduce --count -b 8 -e 8");
  CHECK(ended.status == 5);
  CHECK_THAT(ended.output, ContainsSubstring("--count cannot be used with --backend host: ") &&
                               ContainsSubstring("vgpu-run -n GPUS lockstep_bench"));
}

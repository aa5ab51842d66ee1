#include "report/json_report.hpp"

#include <cmath>
#include <fstream>
#include <iterator>

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

using namespace lockstep::bench;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Removed with all it holds.
struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("lockstep_bench_json_" + std::to_string(::getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
};

JsonReport make_report(const fs::path& path, const std::vector<std::string>& arguments = {},
                       const std::vector<std::string>& environment = {}) {
  return {NewFile::create(path).value(), arguments, environment};
}

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the JSON report has nccl-tests' keys and forms", "[benchmarks]") {
  Options options;
  options.collective = "all_reduce";
  options.threads = 2;
  options.blocking = Blocking::wait;
  const TemporaryFolder folder;
  const fs::path path = folder.path / "out.json";
  JsonReport report = make_report(path, {"lockstep_bench", "all_reduce", "-J", "x"}, {"NCCL_TESTS_DEVICE=0"});
  report.add_config(options, std::vector<RankInfo>{{0, 0, 1, "alpha", 0, "0000:00:00", "A CPU"},
                                                   {1, 0, 1, "alpha", 1, "0000:00:00", "A CPU"}});
  Row row{.size_bytes = 4096, .count = 1024, .type = "float", .op = "sum", .root = -1, .iterations = 20};
  row.out_of_place = {.time_us = 2,
                      .bandwidth = {2.048, 2.048},
                      .wrong = 1,
                      .floor = Floor{1, 0.5},
                      .counted = Counted{65, 2048, 1.015625, 2, 7.5, 1}};
  row.in_place = {.time_us = std::nan(""),
                  .iterations = iteration_statistics(std::vector<double>{9, 1, 3}, 1)};
  report.add_row(options, row);
  Summary summary({});
  summary.add(row);
  report.add_summary(summary);

  REQUIRE(report.finish());
  const Json json = Json::parse(contents(path));
  CHECK(json["version"] == 3);
  CHECK_FALSE(json["config"].contains("virtual_devices"));
  CHECK(json["args"] == Json({"lockstep_bench", "all_reduce", "-J", "x"}));
  CHECK(json["env"] == Json({"NCCL_TESTS_DEVICE=0"}));
  CHECK(json["start_time"].get<std::string>().size() == 19);
  CHECK(json["end_time"].get<std::string>().size() == 19);
  CHECK(json.contains("nccl_version"));
  CHECK(json["errors"] == Json::array());

  const Json& config = json["config"];
  CHECK(config["nthreads"] == 2);
  CHECK(config["ngpus"] == 1);
  CHECK(config["minimum_bytes"] == 32 << 20);
  CHECK(config["step_bytes"] == 1 << 20);
  CHECK_FALSE(config.contains("step_factor"));
  CHECK(config["blocking_collectives"] == "true");
  CHECK(config["per_iter_timing"] == "false");
  CHECK(config["parallel_init"] == "false");
  CHECK(config["backend"] == "host");
  CHECK(config["algorithm"] == "auto");
  for (const char* key : {"maximum_bytes", "warmup_iters", "iterations", "aggregated_iterations",
                          "validation", "graph", "per_iter_skip"})
    CHECK(config.contains(key));
  REQUIRE(config["devices"].size() == 2);
  CHECK(config["devices"][1] == Json({{"rank", 1},
                                      {"group", 0},
                                      {"pid", 1},
                                      {"hostname", "alpha"},
                                      {"device", 1},
                                      {"device_hex", "0000:00:00"},
                                      {"device_info", "A CPU"}}));

  REQUIRE(json["results"].size() == 1);
  const Json& result = json["results"][0];
  CHECK(result["size"] == 4096);
  CHECK(result["count"] == 1024);
  CHECK(result["type"] == "float");
  CHECK(result["redop"] == "sum");
  CHECK(result["root"] == "    -1");
  CHECK(result["actual_iterations"] == 20);
  CHECK(result["experiment_name"] == "all_reduce");
  CHECK(result["out_of_place"] == Json({{"time", 2.0},
                                        {"alg_bw", 2.048},
                                        {"bus_bw", 2.048},
                                        {"nwrong", 1.0},
                                        {"floor_time", 1.0},
                                        {"floor_ratio", 0.5},
                                        {"counted",
                                         {{"ratio", 1.015625},
                                          {"sectors", 65.0},
                                          {"least_bytes", 2048.0},
                                          {"launches", 2.0},
                                          {"calls", 7.5},
                                          {"waits", 1.0}}}}));
  CHECK_FALSE(result["in_place"].contains("counted"));
  CHECK(result["in_place"]["time"] == "nan");
  CHECK(result["in_place"]["nwrong"].is_null());
  CHECK_FALSE(result.contains("out_of_place_per_iter"));
  CHECK(result["in_place_per_iter"]["skipped_iterations"] == 1);
  CHECK(result["in_place_per_iter"]["times_us"] == Json({9.0, 1.0, 3.0}));
  for (const char* key : {"min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us", "stdev_us", "cv_pct"})
    CHECK(result["in_place_per_iter"].contains(key));

  CHECK(json["out_of_bounds"] == Json({{"count", 1}, {"okay", "false"}}));
  CHECK(json["average_bus_bandwidth"]["okay"] == "unchecked");
}

TEST_CASE("the JSON report uses cpu_time, step_factor and the pass mark where they apply", "[benchmarks]") {
  Options options;
  options.report_cpu_time = true;
  options.step_factor = 2;
  options.virtual_devices = 4;
  const TemporaryFolder folder;
  const fs::path path = folder.path / "out.json";
  JsonReport report = make_report(path);
  report.add_config(options, {});
  report.add_row(options, {});
  Summary summary(1.0);
  summary.add({});
  report.add_summary(summary);
  report.add_error("it broke");
  REQUIRE(report.finish());
  const Json json = Json::parse(contents(path));
  CHECK(json["config"]["step_factor"] == 2);
  CHECK(json["config"]["virtual_devices"] == 4);
  CHECK(json["results"][0]["in_place"].contains("cpu_time"));
  CHECK(json["average_bus_bandwidth"]["okay"] == "false");
  CHECK(json["errors"] == Json({"it broke"}));
}

TEST_CASE("the JSON report is whole after each row, so that an interrupted run has one", "[benchmarks]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "out.json";
  JsonReport report = make_report(path);
  CHECK(Json::parse(contents(path))["version"] == 3);
  report.add_config({}, {});
  CHECK(Json::parse(contents(path))["results"] == Json::array());
  for (std::size_t i = 1; i <= 3; ++i) {
    report.add_row({}, {.size_bytes = static_cast<std::int64_t>(i)});
    const Json json = Json::parse(contents(path));
    REQUIRE(json["results"].size() == i);
    CHECK(json["results"][i - 1]["size"] == i);
    CHECK_FALSE(json.contains("end_time"));
  }
  report.add_error("stopped \xff");  // not UTF-8
  CHECK(report.finish());
  const Json json = Json::parse(contents(path));
  CHECK(json["results"].size() == 3);
  CHECK(json["errors"].size() == 1);
  CHECK(json.contains("end_time"));
  CHECK_FALSE(json.contains("out_of_bounds"));
}

TEST_CASE("a report of a run that failed before its first row is whole too", "[benchmarks]") {
  const TemporaryFolder folder;
  JsonReport report = make_report(folder.path / "out.json");
  report.add_error("no memory");
  CHECK(report.finish());
  CHECK(Json::parse(contents(folder.path / "out.json"))["errors"] == Json({"no memory"}));
}

TEST_CASE("an existing file is never overwritten", "[benchmarks]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "out.json";
  for (const char* text : {"first", "second", "third"}) {
    auto file = NewFile::create(path);
    REQUIRE(file);
    CHECK(file->write(0, text));
  }
  CHECK(contents(path) == "first");
  CHECK(contents(folder.path / "out.json.0") == "second");
  CHECK(contents(folder.path / "out.json.1") == "third");
}

TEST_CASE("a file in no folder cannot be created", "[benchmarks]") {
  const TemporaryFolder folder;
  CHECK_FALSE(NewFile::create(folder.path / "missing" / "out.json").has_value());
}

TEST_CASE("only variables that bear upon results are reported", "[benchmarks]") {
  const char* const environment[] = {"HOME=/root", "NCCL_DEBUG=INFO", "API_TOKEN=secret",
                                     "LOCKSTEP_HOST_DEVICES=2", nullptr};
  CHECK(relevant_environment(environment) ==
        std::vector<std::string>{"NCCL_DEBUG=INFO", "LOCKSTEP_HOST_DEVICES=2"});
}

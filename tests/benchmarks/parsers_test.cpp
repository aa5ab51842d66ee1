// What parsers of nccl-tests' output do, on the program's own output: they split rows at white space and take
// fields by number, and search for the average with a regular expression.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "operations/operation.hpp"
#include "report/report.hpp"

using namespace lockstep::bench;
namespace fs = std::filesystem;

namespace {

struct Output {
  std::string text;
  nlohmann::json json;
};

// LOCKSTEP_BENCH is the program's path, given by the build.
Output run_bench(const std::string& flags) {
  const fs::path folder =
      fs::temp_directory_path() / ("lockstep_bench_parsers_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path text = folder / "out.txt", json = folder / "out.json";
  fs::remove(json);
  const std::string command = "'" LOCKSTEP_BENCH "' " + flags + " -n 2 --replicas 2 -J '" + json.string() +
                              "' > '" + text.string() + "' 2>/dev/null";
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream text_file(text), json_file(json);
  Output output{{std::istreambuf_iterator<char>(text_file), {}}, nlohmann::json::parse(json_file)};
  fs::remove_all(folder);
  return output;
}

std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return rows;
}

std::string printed(double value, int width) {
  const std::string text = fit_number(value, width);
  return text.substr(text.find_first_not_of(' '));
}

}  // namespace

TEST_CASE("parsers of nccl-tests' output read every operation's, and find what is in the JSON",
          "[benchmarks]") {
  static const std::map<std::string, std::string> kFlags{{"run", ""},
                                                         {"run_all_reduce", ""},
                                                         {"merge_call", ""},
                                                         {"axis_reduce", "--shape *,4,4 -b 1K -e 4K -f 2"},
                                                         {"batch_reduce", "--sizes 1K,4K,20"},
                                                         {"recorded_step", ""},
                                                         {"step", ""},
                                                         {"input", ""}};
  for (const Traits& operation : all_traits()) {
    const std::string name(operation.name);
    const auto own = kFlags.find(name);
    INFO(name);
    const auto [text, json] =
        run_bench(name + " " + (own != kFlags.end() ? own->second : "-b 1K -e 4K -f 2"));

    const auto rows = rows_of(text);
    REQUIRE(rows.size() == json["results"].size());
    double sum_gbps = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto& fields = rows[i];
      const auto& result = json["results"][i];
      REQUIRE(fields.size() == 13);
      CHECK(std::stoll(fields[0]) == result["size"]);
      CHECK(std::stoll(fields[1]) == result["count"]);
      CHECK(fields[2] == result["type"]);
      CHECK(fields[3] == result["redop"]);
      CHECK(std::stoi(fields[4]) == std::stoi(result["root"].get<std::string>()));
      std::size_t field = 5;
      for (const char* placement : {"out_of_place", "in_place"}) {
        const auto& measured = result[placement];
        CHECK(fields[field++] == printed(measured["time"], 7));
        CHECK(fields[field++] == printed(measured["alg_bw"], 6));
        CHECK(fields[field++] == printed(measured["bus_bw"], 6));
        CHECK(std::stoll(fields[field++]) == measured["nwrong"]);
        sum_gbps += measured["bus_bw"].get<double>();
      }
      CHECK(result["experiment_name"] == name);
    }

    std::smatch match;
    REQUIRE(std::regex_search(text, match, std::regex("Avg bus bandwidth\\s*:\\s*(\\S+)")));
    const double average = json["average_bus_bandwidth"]["bandwidth"];
    CHECK(std::abs(std::stod(match[1]) - average) <= 1e-5 * average);  // printed with six digits
    CHECK(std::abs(sum_gbps / static_cast<double>(2 * rows.size()) - average) <= 1e-12 * average);
    REQUIRE(
        std::regex_search(text, match, std::regex("# Out of bounds values\\s*:\\s*(\\d+)\\s+(OK|FAILED)")));
    CHECK(std::stoll(match[1]) == json["out_of_bounds"]["count"]);
    CHECK((match[2] == "OK") == (json["out_of_bounds"]["okay"] == "true"));
    REQUIRE(std::regex_search(text, match, std::regex("# Collective test starting: (\\S+)\n")));
    CHECK(match[1] == name);
  }
}

TEST_CASE("the header says what the floor is", "[benchmarks]") {
  CHECK(std::regex_search(
      run_bench("reduce -b 1K -e 1K --floor").text,
      std::regex("# Floor: the time of the faster of two plain loops .*, and floor / time\n")));
  const Output output = run_bench("axis_reduce --shape 8,3,40 --floor");
  CHECK(
      std::regex_search(output.text, std::regex("# Floor: the time of a plain loop .*, and floor / time\n")));
  CHECK(output.json["results"][0]["in_place"].contains("floor_ratio"));
}

TEST_CASE("the help names every operation", "[benchmarks]") {
  for (const Traits& operation : all_traits())
    CHECK(std::regex_search(usage(), std::regex("\\b" + std::string(operation.name) + "\\b")));
}

TEST_CASE("at least two spaces separate the fields of every row", "[benchmarks]") {
  const auto [text, json] = run_bench("all_gather -b 1K -e 64K -f 4 --floor");
  std::istringstream lines(text);
  int num_rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    ++num_rows;
    const std::string row = line.substr(line.find_first_not_of(' '));
    const std::regex gap(" {2,}");
    const std::vector<std::string> fields(std::sregex_token_iterator(row.begin(), row.end(), gap, -1), {});
    CHECK(fields.size() == 17);
    for (const std::string& field : fields) CHECK(field.find(' ') == std::string::npos);
  }
  CHECK(num_rows == 4);
  CHECK(json["results"][0]["in_place"].contains("floor_ratio"));
}

// lockstep_bench in several processes, and its table. The build gives the paths: LOCKSTEP_BENCH,
// LOCKSTEP_TEST_SUPPORT.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "benchmarks/run_command.hpp"

namespace lockstep::bench {

inline const std::string kBench = "'" LOCKSTEP_BENCH "' ";

/// Lines of process 1 begin with "1: ".
inline Ended run_workers(int processes, const std::string& program, const std::string& environment = {}) {
  return run_command(environment + " '" LOCKSTEP_TEST_SUPPORT "/run_workers.sh' --time-limit 120 -n " +
                     std::to_string(processes) + " " + program);
}

/// As one worker that runs a command of bash, in which $worker is its index.
inline std::string bash(const std::string& command) {
  return R"(bash -c 'worker=${TF_CONFIG##*: }; worker=${worker%%\}*}; )" + command + "'";
}

inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// The columns of the table's rows, without the lines' prefix.
inline std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0: ")) line = line.substr(3);
    std::istringstream columns(line);
    std::vector<std::string> row;
    for (std::string column; columns >> column;) row.push_back(column);
    if (!row.empty() && row[0].find_first_not_of("0123456789") == std::string::npos) rows.push_back(row);
  }
  return rows;
}

/// As nccl-tests' table has them.
inline constexpr std::size_t kOutOfPlaceWrong = 8, kInPlaceWrong = 12, kFloorRatio = 14;

inline void check_one_table(const Ended& ended, int num_ranks, std::size_t num_rows) {
  INFO(ended.output);
  REQUIRE(ended.status == 0);
  CHECK(count(ended.output, "# Collective test starting: ") == 1);
  CHECK(count(ended.output, "#  Rank ") == num_ranks);
  CHECK(count(ended.output, "# Out of bounds values : 0 OK") == 1);
  const auto rows = rows_of(ended.output);
  REQUIRE(rows.size() == num_rows);
  for (const auto& row : rows) {
    REQUIRE(row.size() > kInPlaceWrong);
    CHECK(row[kOutOfPlaceWrong] == "0");
    CHECK(row[kInPlaceWrong] == "0");
  }
}

}  // namespace lockstep::bench

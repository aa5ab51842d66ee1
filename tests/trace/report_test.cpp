#include <sstream>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <lockstep/report.hpp>

#include "trace/call_group.hpp"

namespace lockstep {

namespace {

using namespace std::chrono_literals;

Report example() {
  ReportedCall waiting{.number = 12,
                       .call = 7,
                       .operation = "all_reduce(sum)",
                       .operands = "[10] float32",
                       .label = "grad/\"3\"",
                       .region = "train",
                       .bytes = 40,
                       .state = CallState::waiting,
                       .age = 2500ms};
  ReportedCall done{
      .number = 11, .call = 6, .operation = "merge_call", .state = CallState::completed, .age = 250us};
  return {{{.name = "a strategy",
            .difference = "call 7: ...",
            .ranks = {{.rank = 0, .label = "replica 0 (CPU:0)", .calls = {done, waiting}},
                      {.rank = 1, .label = "replica 1 (CPU:1)", .is_missing = true, .calls = {done}},
                      {.rank = 2, .label = "replica 2", .is_known = false, .calls = {}},
                      {.rank = 3, .label = "replica 3 (CPU:3)", .calls = {}}}}}};
}

}  // namespace

TEST_CASE("a report is some lines for people", "[trace][host]") {
  const std::string text =
      "a strategy:\n"
      "  replica 0 (CPU:0): call 7, all_reduce(sum) of [10] float32, 'grad/\"3\"', in 'train', waiting for "
      "2.50 s\n"
      "  replica 1 (CPU:1) (others wait for it): call 6, merge_call, completed; made 0.000250 s ago\n"
      "  replica 2: unknown: its worker has not answered\n"
      "  replica 3 (CPU:3): no call\n"
      "  The first recorded call that differs: call 7: ...";
  CHECK(example().to_string() == text);
  std::ostringstream out;
  out << example();
  CHECK(out.str() == text);
}

TEST_CASE("a report is JSON for programs", "[trace][host]") {
  const nlohmann::json json = nlohmann::json::parse(example().to_json());
  CHECK(json.at("version") == 1);
  CHECK(json.at("process").get<int>() > 0);
  const auto& group = json.at("groups").at(0);
  CHECK(group.at("name") == "a strategy");
  CHECK(group.at("difference") == "call 7: ...");
  const auto& rank = group.at("ranks").at(0);
  CHECK(rank.at("label") == "replica 0 (CPU:0)");
  CHECK(group.at("ranks").at(1).at("missing") == true);
  CHECK(group.at("ranks").at(2).at("known") == false);
  const auto& call = rank.at("calls").at(1);
  CHECK(call == nlohmann::json{{"number", 12},
                               {"call", 7},
                               {"operation", "all_reduce(sum)"},
                               {"operands", "[10] float32"},
                               {"label", "grad/\"3\""},
                               {"region", "train"},
                               {"bytes", 40},
                               {"state", "waiting"},
                               {"age_ns", 2'500'000'000}});
}

TEST_CASE("a report is read back, and anything else is none", "[trace][host]") {
  CHECK(detail::report_from_json(example().to_json()).to_string() == example().to_string());
  for (const char* const wrong : {"", "{", "{}", R"({"groups": [{"name": 1}]})", R"({"groups": 3})"})
    CHECK(detail::report_from_json(wrong).groups.empty());
}

TEST_CASE("states have names", "[trace][host]") {
  CHECK(name(CallState::waiting) == "waiting");
  CHECK(name(CallState::failed) == "failed");
}

}  // namespace lockstep

#include "cluster/tf_config.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using cluster::ClusterSpec;
using detail::parse_tf_config;
using test::says;

TEST_CASE("TF_CONFIG is read in full", "[cluster][host]") {
  const detail::TfConfig config = parse_tf_config(R"({
    "cluster": {"ps": {"3": "p3:2222", "5": "p5:2222"}, "worker": ["w0:2222", "w1:2222"], "none": []},
    "task": {"type": "ps", "index": 3, "trial": "x"},
    "rpc_layer": "grpc", "session_master": "m:1", "environment": {"any": [1, null]}})");
  CHECK(config.cluster == ClusterSpec{{"ps", {{3, "p3:2222"}, {5, "p5:2222"}}},
                                      {"worker", {"w0:2222", "w1:2222"}},
                                      {"none", {}}});
  CHECK(config.task_type == "ps");
  CHECK(config.task_id == 3);
  CHECK(config.rpc_layer == "grpc");
  CHECK(config.session_master == "m:1");
}

TEST_CASE("what TF_CONFIG leaves out, or is null, is not known", "[cluster][host]") {
  const std::string text =
      GENERATE("{}", R"({"task": {}})", R"({"cluster": {}})",
               R"({"cluster": null, "task": null, "rpc_layer": null, "session_master": null})",
               R"({"task": {"type": null, "index": null}})");
  CAPTURE(text);
  const detail::TfConfig config = parse_tf_config(text);
  CHECK(config.cluster.empty());
  CHECK_FALSE(config.task_type);
  CHECK_FALSE(config.task_id);
  CHECK_FALSE(config.rpc_layer);
  CHECK_FALSE(config.session_master);
}

TEST_CASE("types that are numbers and indices that are text are converted", "[cluster][host]") {
  CHECK(parse_tf_config(R"({"task": {"type": -1.5}})").task_type == "-1.5");
  CHECK(parse_tf_config(R"({"task": {"index": "012"}})").task_id == 12);
  CHECK(parse_tf_config(R"({"task": {"index": 2147483647}})").task_id == 2147483647);
}

TEST_CASE("a TF_CONFIG that cannot be read is refused, with its text and the place", "[cluster][host]") {
  struct Row {
    std::string text, why;
  };
  const auto row = GENERATE(values<Row>({
      {"x", "it is not JSON at byte 1"},
      {" ", "it is not JSON at byte 2"},
      {R"({"cluster": )", "it is not JSON at byte 13"},
      {R"({"cluster": {}} x)", "it is not JSON at byte 17"},
      {"{\"rpc_layer\": \"\xff\"}", "it is not JSON at byte 16"},
      {"{\"a\": 1e999}", "a number is too large"},
      {"[]", "it is a list, not an object"},
      {"null", "it is null, not an object"},
      {"3", "it is the number 3, not an object"},
      {R"({"cluster": []})", "cluster is a list, not an object"},
      {R"({"cluster": "w0"})", "cluster is the text 'w0', not an object"},
      {R"({"cluster": {"": ["a"]}})", "cluster has a job without a name"},
      {R"({"cluster": {"worker": "w0:1"}})", "cluster.'worker' is the text 'w0:1', not a list, or an object"},
      {R"({"cluster": {"worker": null}})", "cluster.'worker' is null, not a list"},
      {R"({"cluster": {"worker": ["a", 1]}})", "cluster.'worker' at 1 is the number 1, not a string"},
      {R"({"cluster": {"worker": {"0": true}}})", "cluster.'worker' at 0 is a boolean, not a string"},
      {R"({"cluster": {"worker": {"x": "a"}}})",
       "cluster.'worker' has the index 'x', which is not a task's number"},
      {R"({"cluster": {"worker": {"-1": "a"}}})", "cluster.'worker' has the index '-1'"},
      {R"({"cluster": {"worker": {"2147483648": "a"}}})", "has the index '2147483648'"},
      {R"({"cluster": {"worker": {"1": "a", "01": "b"}}})", "cluster.'worker' at 1 occurs twice"},
      {R"({"task": "worker"})", "task is the text 'worker', not an object"},
      {R"({"task": {"type": true}})", "task.type is a boolean, not a string"},
      {R"({"task": {"type": {}}})", "task.type is an object, not a string"},
      {R"({"task": {"index": -1}})", "task.index is the number -1, not a whole number from 0"},
      {R"({"task": {"index": 1.5}})", "task.index is the number 1.5, not a whole number"},
      {R"({"task": {"index": 2147483648}})", "task.index is the number 2147483648, not a whole number"},
      {R"({"task": {"index": "one"}})", "task.index is the text 'one', not a whole number"},
      {R"({"task": {"index": []}})", "task.index is a list, not a whole number"},
      {R"({"rpc_layer": 1})", "rpc_layer is the number 1, not a string"},
      {R"({"session_master": ["m"]})", "session_master is a list, not a string"},
  }));
  CAPTURE(row.text);
  CHECK_THROWS_MATCHES(
      parse_tf_config(row.text), InvalidArgument,
      says("TF_CONFIG is '" + row.text.substr(0, 10), row.why, R"(Write it as {"cluster": {"worker": [)"));
}

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/tf_config_resolver.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using cluster::AcceleratorCounts;
using cluster::ClusterSpec;
using cluster::ResolverOptions;
using cluster::TfConfigResolver;
using test::says;

namespace {

TfConfigResolver resolver(const std::string& text, ResolverOptions options = {}) {
  return TfConfigResolver(std::move(options), {{"TF_CONFIG", text}});
}

constexpr const char* kFive = R"({"cluster": {"ps": ["ps0:2222", "ps1:2222"],
                                              "worker": ["w0:2222", "w1:2222", "w2:2222"]},
                                  "task": {"type": "ps", "index": 0}})";

}  // namespace

TEST_CASE("tf-config-casts: a type that is a number becomes text, an index that is text a number",
          "[cluster][host]") {
  CHECK(resolver(R"({"task": {"type": 123456, "index": 0}})").task_type() == "123456");
  CHECK(resolver(R"({"task": {"type": "ps", "index": "1"}})").task_id() == 1);
}

TEST_CASE("tf-config-trivial: without several tasks there is no master", "[cluster][host]") {
  CHECK(resolver("{}").master().empty());
  CHECK(resolver("{}").cluster_spec().empty());
  CHECK(resolver(R"({"cluster": {"worker": ["w0:2222"]}})").master().empty());
}

TEST_CASE("a TF_CONFIG that is not set, or set to nothing, is an empty cluster", "[cluster][host]") {
  for (const auto& variables :
       {cluster::EnvironmentVariables{}, cluster::EnvironmentVariables{{"TF_CONFIG", ""}}}) {
    const TfConfigResolver none({}, variables);
    CHECK(none.cluster_spec().empty());
    CHECK_FALSE(none.task_type());
    CHECK_FALSE(none.task_id());
    CHECK_FALSE(none.rpc_layer());
    CHECK(none.master().empty());
  }
}

TEST_CASE("the cluster and the task come from TF_CONFIG", "[cluster][host]") {
  const TfConfigResolver five = resolver(kFive);
  CHECK(five.cluster_spec() ==
        ClusterSpec{{"ps", {"ps0:2222", "ps1:2222"}}, {"worker", {"w0:2222", "w1:2222", "w2:2222"}}});
  CHECK(five.task_type() == "ps");
  CHECK(five.task_id() == 0);
  CHECK_FALSE(five.rpc_layer());
}

TEST_CASE("the master is the session master, else the address of a task", "[cluster][host]") {
  CHECK(resolver(kFive).master() == "ps0:2222");
  CHECK(resolver(kFive).master("worker", 1) == "w1:2222");
  CHECK(resolver(kFive, {.rpc_layer = "grpc"}).master() == "grpc://ps0:2222");
  CHECK(resolver(R"({"cluster": {"worker": ["a", "b"]}, "session_master": "m:1"})").master() == "m:1");
  CHECK(resolver(R"({"cluster": {"worker": ["a", "b"]}, "session_master": "m:1"})").master("worker", 1) ==
        "m:1");
  CHECK(resolver(R"({"session_master": "m:1"})", {.master = "m:2"}).master() == "m:2");
  CHECK_THROWS_MATCHES(resolver(R"({"cluster": {"worker": ["a", "b"]}})").master(), InvalidArgument,
                       says("{worker: [a, b]} has several tasks", "Set task type and id"));
  CHECK_THROWS_MATCHES(resolver(kFive, {.task_id = 2}).master(), InvalidArgument, says("'ps' has no task 2"));
  CHECK_THROWS_MATCHES(resolver(kFive).master("worker", 3), InvalidArgument, says("'worker' has no task 3"));
}

TEST_CASE("options and setters override TF_CONFIG", "[cluster][host]") {
  TfConfigResolver five = resolver(R"({"cluster": {"ps": ["ps0", "ps1"], "worker": ["w0", "w1"]},
                                      "rpc_layer": "grpc", "task": {"type": "ps", "index": 1}})",
                                   {.task_type = "ps", .task_id = 0});
  CHECK(five.master() == "grpc://ps0");
  CHECK(five.task_id() == 0);
  five.set_task_type("worker");
  five.set_task_id(1);
  five.set_rpc_layer("test");
  CHECK(five.master() == "test://w1");
  CHECK(five.task_type() == "worker");
  CHECK(five.task_id() == 1);
  CHECK(five.rpc_layer() == "test");
}

TEST_CASE("the accelerators are the options', else of the current task this process's GPUs",
          "[cluster][host]") {
  const TfConfigResolver told = resolver(kFive, {.num_accelerators = {{{"worker", 1}, {{"GPU", 2}}}}});
  CHECK(told.num_accelerators("worker", 1) == AcceleratorCounts{{"GPU", 2}});
  CHECK(told.num_accelerators().empty());

  const int num_gpus = static_cast<int>(DeviceManager::instance().devices(DeviceKind::gpu).size());
  const AcceleratorCounts here = num_gpus == 0 ? AcceleratorCounts{} : AcceleratorCounts{{"GPU", num_gpus}};
  CHECK(resolver(kFive).num_accelerators() == here);
  CHECK(resolver(kFive).num_accelerators("ps", 0) == here);
  CHECK(resolver("{}").num_accelerators() == here);
  CHECK(resolver(kFive).num_accelerators("worker", 1).empty());
}

TEST_CASE("a resolver is not made of a TF_CONFIG that cannot be read", "[cluster][host]") {
  CHECK_THROWS_MATCHES(resolver("{"), InvalidArgument, says("TF_CONFIG is '{'", "not JSON at byte 2"));
  CHECK_THROWS_MATCHES(resolver(kFive, {.task_id = -1}), InvalidArgument, says("task id -1 is negative"));
}

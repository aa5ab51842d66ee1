#include <type_traits>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using cluster::AcceleratorCounts;
using cluster::ClusterSpec;
using cluster::SimpleResolver;
using test::says;

namespace {

const ClusterSpec kSpec{{"ps", {"ps0:2222", "ps1:2222"}}, {"worker", {"w0:2222", "w1:2222", "w2:2222"}}};

}  // namespace

TEST_CASE("a simple resolver says what it was told", "[cluster][host]") {
  const SimpleResolver resolver(kSpec, {.task_type = "ps",
                                        .task_id = 1,
                                        .rpc_layer = "grpc",
                                        .environment = "cloud",
                                        .num_accelerators = {{"GPU", 8}},
                                        .master = "m:1",
                                        .local_rank = 2,
                                        .local_size = 4});
  CHECK(resolver.cluster_spec() == kSpec);
  CHECK(resolver.master() == "grpc://m:1");
  CHECK(resolver.task_type() == "ps");
  CHECK(resolver.task_id() == 1);
  CHECK(resolver.rpc_layer() == "grpc");
  CHECK(resolver.environment() == "cloud");
  CHECK(resolver.local_rank() == 2);
  CHECK(resolver.local_size() == 4);
  CHECK(resolver.num_accelerators() == AcceleratorCounts{{"GPU", 8}});
  CHECK(resolver.num_accelerators("worker", 2) == AcceleratorCounts{{"GPU", 8}});
}

TEST_CASE("a simple resolver knows nothing that it was not told", "[cluster][host]") {
  const SimpleResolver resolver({{"worker", {"w0"}}});
  CHECK(resolver.cluster_spec() == ClusterSpec{{"worker", {"w0"}}});
  CHECK(resolver.master().empty());
  CHECK_FALSE(resolver.task_type());
  CHECK_FALSE(resolver.task_id());
  CHECK_FALSE(resolver.rpc_layer());
  CHECK(resolver.environment().empty());
  CHECK_FALSE(resolver.local_rank());
  CHECK_FALSE(resolver.local_size());
  CHECK(resolver.num_accelerators().empty());
  CHECK(resolver.num_accelerators("worker", 0).empty());
}

TEST_CASE("what a temporary resolver or cluster tells outlives it", "[cluster][host]") {
  const auto make = [] {
    return SimpleResolver(kSpec, {.task_type = "a task type beyond short strings",
                                  .rpc_layer = "an rpc layer beyond short strings",
                                  .environment = "an environment beyond short strings"});
  };
  static_assert(!std::is_reference_v<decltype(make().task_type())>);
  static_assert(!std::is_reference_v<decltype(make().rpc_layer())>);
  static_assert(!std::is_reference_v<decltype(make().environment())>);
  const auto& type = make().task_type();
  const auto& layer = make().rpc_layer();
  const auto& environment = make().environment();
  CHECK(type == "a task type beyond short strings");
  CHECK(layer == "an rpc layer beyond short strings");
  CHECK(environment == "an environment beyond short strings");

  std::vector<std::string> addresses;
  for (const auto& [index, address] : make().cluster_spec().tasks("worker")) addresses.push_back(address);
  CHECK(addresses == std::vector<std::string>{"w0:2222", "w1:2222", "w2:2222"});
  const std::string& first = make().cluster_spec().task_address("ps", 0);
  CHECK(first == "ps0:2222");
  static_assert(!std::is_reference_v<decltype(std::declval<const ClusterSpec>().tasks("worker"))>);
  static_assert(!std::is_reference_v<decltype(std::declval<const ClusterSpec>().task_address("worker", 0))>);
}

TEST_CASE("setters replace what a resolver was told", "[cluster][host]") {
  SimpleResolver resolver(kSpec, {.task_type = "ps", .task_id = 1, .rpc_layer = "grpc"});
  resolver.set_task_type("worker");
  resolver.set_task_id(2);
  resolver.set_rpc_layer("http");
  CHECK(resolver.task_type() == "worker");
  CHECK(resolver.task_id() == 2);
  CHECK(resolver.rpc_layer() == "http");
  resolver.set_task_type({});
  resolver.set_task_id({});
  resolver.set_rpc_layer({});
  CHECK_FALSE(resolver.task_type());
  CHECK_FALSE(resolver.task_id());
  CHECK_FALSE(resolver.rpc_layer());
}

TEST_CASE("the master of a task is its address, behind the rpc layer", "[cluster][host]") {
  SimpleResolver resolver(kSpec, {.master = "m:1"});
  CHECK(resolver.master("worker", 0) == "w0:2222");
  CHECK(resolver.master("worker", 2) == "w2:2222");
  CHECK(resolver.master() == "m:1");
  resolver.set_rpc_layer("grpc");
  CHECK(resolver.master("worker", 2) == "grpc://w2:2222");
  resolver.set_rpc_layer("");
  CHECK(resolver.master("ps", 1) == "ps1:2222");
  CHECK_THROWS_MATCHES(resolver.master("worker", 3), InvalidArgument, says("'worker' has no task 3"));
  CHECK_THROWS_MATCHES(resolver.master("chief", 0), InvalidArgument, says("no job 'chief'"));
}

TEST_CASE("accelerators: counts by kind for each task, by default the current one, or of all",
          "[cluster][host]") {
  SimpleResolver resolver(
      {{"worker1", {"w10"}}, {"worker2", {"w20", "w21", "w22", "w23"}}},
      {.task_type = "worker1",
       .task_id = 0,
       .num_accelerators = {{{"worker1", 0}, {{"GPU", 2}}}, {{"worker2", 3}, {{"GPU", 1}}}}});
  CHECK(resolver.num_accelerators("worker1", 0) == AcceleratorCounts{{"GPU", 2}});
  CHECK(resolver.num_accelerators("worker2", 3) == AcceleratorCounts{{"GPU", 1}});
  CHECK(resolver.num_accelerators("worker2", 0).empty());
  CHECK(resolver.num_accelerators() == AcceleratorCounts{{"GPU", 2}});
  resolver.set_task_type("worker2");
  resolver.set_task_id(3);
  CHECK(resolver.num_accelerators() == AcceleratorCounts{{"GPU", 1}});
  resolver.set_task_id({});
  CHECK(resolver.num_accelerators() == AcceleratorCounts{{"GPU", 3}});
}

TEST_CASE("options out of their range are refused", "[cluster][host]") {
  CHECK_THROWS_MATCHES(SimpleResolver(kSpec, {.task_id = -1}), InvalidArgument,
                       says("task id -1 is negative"));
  SimpleResolver resolver(kSpec, {.task_id = 1});
  CHECK_THROWS_MATCHES(resolver.set_task_id(-2), InvalidArgument, says("task id -2 is negative"));
  CHECK(resolver.task_id() == 1);
  CHECK_THROWS_MATCHES(SimpleResolver(kSpec, {.num_accelerators = {{"GPU", -1}}}), InvalidArgument,
                       says("-1 accelerators of the kind 'GPU'"));
  CHECK_THROWS_MATCHES(SimpleResolver(kSpec, {.num_accelerators = {{{"worker", 0}, {{"GPU", -3}}}}}),
                       InvalidArgument, says("-3 accelerators of the kind 'GPU'"));
  CHECK_THROWS_MATCHES(SimpleResolver(kSpec, {.local_rank = -1}), InvalidArgument, says("local rank -1"));
  CHECK_THROWS_MATCHES(SimpleResolver(kSpec, {.local_rank = 2, .local_size = 2}), InvalidArgument,
                       says("local rank 2 is not one of 2 processes"));
  CHECK_THROWS_MATCHES(SimpleResolver(kSpec, {.local_size = 0}), InvalidArgument, says("0 processes"));
}

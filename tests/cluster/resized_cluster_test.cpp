#include "cluster/resized_cluster.hpp"

#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using cluster::SimpleResolver;
using detail::addresses_of_workers;
using detail::shrunk_cluster;
using test::says;

TEST_CASE("those that are left keep their order, and are workers alone", "[cluster][host]") {
  const cluster::ClusterSpec spec{{"chief", {"c:1"}}, {"worker", {"w0:2", "w1:3", "w2:4"}}, {"ps", {"p:5"}}};
  CHECK(addresses_of_workers(spec) == std::vector<std::string>{"c:1", "w0:2", "w1:3", "w2:4"});
  const SimpleResolver second(spec, {.task_type = "worker", .task_id = 1});
  const auto check = [&](const std::vector<int>& lost, const std::vector<std::string>& left, int own) {
    const auto shrunk = shrunk_cluster(second, lost);
    CHECK(addresses_of_workers(shrunk->cluster_spec()) == left);
    CHECK(shrunk->task_type() == "worker");
    CHECK(shrunk->task_id() == own);
  };
  check({3}, {"c:1", "w0:2", "w1:3"}, 2);
  check({1}, {"c:1", "w1:3", "w2:4"}, 1);
  check({3, 0}, {"w0:2", "w1:3"}, 1);
  check({0, 1, 3}, {"w1:3"}, 0);
}

TEST_CASE("those who join follow the others, who keep their order", "[cluster][host]") {
  const cluster::ClusterSpec spec{{"chief", {"c:1"}}, {"worker", {"w0:2"}}, {"ps", {"p:5"}}};
  const SimpleResolver second(spec, {.task_type = "worker", .task_id = 0});
  const auto grown = detail::grown_cluster(second, {"", "j1:7"});
  CHECK(addresses_of_workers(grown->cluster_spec()) == std::vector<std::string>{"c:1", "w0:2", "", "j1:7"});
  CHECK(grown->task_type() == "worker");
  CHECK(grown->task_id() == 1);
}

TEST_CASE("who was taken for lost does not go on, nor those who do not know their leader's address",
          "[cluster][host]") {
  const SimpleResolver second({{"worker", {"w0:2", "", ""}}}, {.task_type = "worker", .task_id = 1});
  CHECK_THROWS_MATCHES(shrunk_cluster(second, {1}), ContextError,
                       says("this one, worker 1, was silent, and the others go on without it. End it."));
  CHECK_THROWS_MATCHES(shrunk_cluster(second, {0}), ContextError,
                       says("worker 1 would lead those that are left, and its address is not known. Tell all "
                            "workers' addresses by TF_CONFIG, or start all anew."));
  CHECK(detail::first_left(second, {}) == 0);
  CHECK(detail::first_left(second, {2, 0}) == 1);
  CHECK(addresses_of_workers(shrunk_cluster(second, {2})->cluster_spec()) ==
        std::vector<std::string>{"w0:2", ""});
  CHECK(addresses_of_workers(shrunk_cluster(second, {0, 2})->cluster_spec()) ==
        std::vector<std::string>{""});  // alone, it needs none
}

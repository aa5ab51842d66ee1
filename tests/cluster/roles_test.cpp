#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using namespace lockstep::cluster;
using test::says;

namespace {

const ClusterSpec kWithChief{
    {"chief", {"c0"}}, {"worker", {"w0", "w1"}}, {"ps", {"p0", "p1"}}, {"evaluator", {"e0"}}};
const ClusterSpec kWorkers{{"worker", {"w0", "w1"}}};

}  // namespace

TEST_CASE("chief: the chief, without one worker 0", "[cluster][host]") {
  const ClusterSpec spec{{"chief", {"c0"}}, {"worker", {"w0", "w1"}}};
  CHECK(is_chief(spec, "chief", 0));
  CHECK_FALSE(is_chief(spec, "worker", 0));
  CHECK(is_chief(kWorkers, "worker", 0));
  CHECK_FALSE(is_chief(kWorkers, "worker", 1));
  CHECK_THROWS_MATCHES(is_chief(kWorkers, "chief", 0), InvalidArgument, says("no job 'chief'"));
  CHECK_THROWS_MATCHES(is_chief(kWorkers, "worker", 2), InvalidArgument, says("'worker' has no task 2"));
}

TEST_CASE("an evaluator is its own chief, a parameter server is none", "[cluster][host]") {
  CHECK(is_chief(kWithChief, "evaluator", 0));
  CHECK_FALSE(is_chief(kWithChief, "ps", 0));
  CHECK_FALSE(is_chief({{"ps", {"p0"}}}, "ps", 0));
}

TEST_CASE("workers are counted with the chief, evaluators by themselves", "[cluster][host]") {
  CHECK(worker_count(kWithChief, "chief") == 3);
  CHECK(worker_count(kWithChief, "worker") == 3);
  CHECK(worker_count(kWithChief, "worker", 1) == 3);
  CHECK(worker_count(kWithChief, "evaluator") == 1);
  CHECK(worker_count(kWorkers, "worker") == 2);
  CHECK(worker_count({{"chief", {"c0"}}}, "chief") == 1);
  CHECK_THROWS_MATCHES(worker_count(kWithChief, "ps"), InvalidArgument,
                       says("worker_count: a task of the type 'ps' is not one of the workers"));
  CHECK_THROWS_MATCHES(worker_count(kWithChief, "worker", 2), InvalidArgument, says("no task 2"));
}

TEST_CASE("ids in the cluster: the chief, then the workers", "[cluster][host]") {
  CHECK(id_in_cluster(kWithChief, "chief", 0) == 0);
  CHECK(id_in_cluster(kWithChief, "worker", 0) == 1);
  CHECK(id_in_cluster(kWithChief, "worker", 1) == 2);
  CHECK(id_in_cluster(kWithChief, "evaluator", 0) == 0);
  CHECK(id_in_cluster(kWorkers, "worker", 1) == 1);
  CHECK_THROWS_MATCHES(id_in_cluster(kWithChief, "ps", 1), InvalidArgument, says("id_in_cluster", "'ps'"));
}

TEST_CASE("the collective leader: the chief, without one worker 0, for evaluators none", "[cluster][host]") {
  CHECK(collective_leader(kWithChief, "chief", 0) == Task{"chief", 0});
  CHECK(collective_leader(kWithChief, "worker", 1) == Task{"chief", 0});
  CHECK(collective_leader(kWithChief, "ps", 1) == Task{"chief", 0});
  CHECK(collective_leader(kWorkers, "worker", 1) == Task{"worker", 0});
  CHECK_FALSE(collective_leader(kWithChief, "evaluator", 0));
  CHECK_FALSE(collective_leader({}, "worker", 0));
  CHECK_THROWS_MATCHES(collective_leader({{"ps", {"p0"}}}, "ps", 0), InvalidArgument,
                       says("{ps: [p0]} has neither a chief nor a worker"));
  CHECK_THROWS_MATCHES(collective_leader(kWorkers, "worker", 2), InvalidArgument, says("no task 2"));
}

TEST_CASE("an evaluator works beside a cluster that does not list it", "[cluster][host]") {
  const ClusterSpec training{{"chief", {"c:1"}}, {"worker", {"w:1"}}};
  CHECK_NOTHROW(validate_cluster_spec(training, "evaluator", 0));
  CHECK(is_chief(training, "evaluator", 0));
  CHECK(id_in_cluster(training, "evaluator", 0) == 0);
  CHECK(id_in_cluster(training, "evaluator", 2) == 2);
  CHECK_FALSE(collective_leader(training, "evaluator", 0));
  CHECK_THROWS_MATCHES(worker_count(training, "evaluator"), InvalidArgument, says("no job 'evaluator'"));
  CHECK_THROWS_MATCHES(is_chief(training, "evaluator", -1), InvalidArgument, says("no job 'evaluator'"));
  CHECK_THROWS_MATCHES(is_chief(kWithChief, "evaluator", 1), InvalidArgument, says("no task 1"));
}

TEST_CASE("in a sparse job the first task is worker 0, and ids have no holes", "[cluster][host]") {
  const ClusterSpec spec{{"worker", {{3, "w3"}, {7, "w7"}, {9, "w9"}}}};
  CHECK(is_chief(spec, "worker", 3));
  CHECK_FALSE(is_chief(spec, "worker", 7));
  CHECK(worker_count(spec, "worker", 9) == 3);
  CHECK(id_in_cluster(spec, "worker", 3) == 0);
  CHECK(id_in_cluster(spec, "worker", 9) == 2);
  CHECK(collective_leader(spec, "worker", 9) == Task{"worker", 3});
  CHECK(id_in_cluster({{"evaluator", {{99, "e99"}}}}, "evaluator", 99) == 0);
}

TEST_CASE("clusters and tasks are validated", "[cluster][host]") {
  CHECK_NOTHROW(validate_cluster_spec(kWithChief, "ps", 1));
  CHECK_THROWS_MATCHES(validate_cluster_spec(kWithChief, "boss", 0), InvalidArgument,
                       says("'boss' is not a type of task", "chief, worker, evaluator and ps"));
  CHECK_THROWS_MATCHES(validate_cluster_spec(kWithChief, "", 0), InvalidArgument, says("'' is not a type"));
  CHECK_THROWS_MATCHES(validate_cluster_spec({{"boss", {"b0"}}}, "boss", 0), InvalidArgument, says("'boss'"));
  CHECK_THROWS_MATCHES(validate_cluster_spec(kWorkers, "ps", 0), InvalidArgument, says("no job 'ps'"));
  CHECK_THROWS_MATCHES(validate_cluster_spec(kWithChief, "worker", 2), InvalidArgument, says("no task 2"));
  CHECK_THROWS_MATCHES(validate_cluster_spec(kWithChief, "worker", -1), InvalidArgument, says("no task -1"));
  CHECK_THROWS_MATCHES(validate_cluster_spec({{"chief", {"a", "b"}}, {"worker", {"w"}}}, "worker", 0),
                       InvalidArgument, says("has 2 tasks in the job chief", "at most one"));
  CHECK_THROWS_MATCHES(validate_cluster_spec({{"evaluator", {"a", "b"}}, {"worker", {"w"}}}, "worker", 0),
                       InvalidArgument, says("has 2 tasks in the job evaluator"));
}

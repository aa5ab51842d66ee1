#include <sstream>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/cluster_spec.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using cluster::ClusterSpec;
using cluster::Task;
using test::says;

namespace {

std::string text(const auto& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

TEST_CASE("a cluster has jobs, whose tasks are lists or sparse maps", "[cluster][host]") {
  const ClusterSpec spec{{"worker", {"w0", "w1"}}, {"ps", {{3, "p3"}}}};
  CHECK_FALSE(spec.empty());
  CHECK(spec.jobs() == std::vector<std::string>{"ps", "worker"});
  CHECK(spec.contains("worker"));
  CHECK_FALSE(spec.contains("chief"));
  CHECK(spec.tasks("worker") == std::map<int, std::string>{{0, "w0"}, {1, "w1"}});
  CHECK(spec.tasks("ps") == std::map<int, std::string>{{3, "p3"}});
  CHECK(spec.num_tasks("worker") == 2);
  CHECK(spec.num_tasks("ps") == 1);
  CHECK(spec.num_tasks() == 3);
  CHECK(spec.task_address("worker", 1) == "w1");
  CHECK(spec.task_address("ps", 3) == "p3");
  CHECK(spec.contains(Task{"ps", 3}));
  CHECK_FALSE(spec.contains(Task{"ps", 0}));
  CHECK_FALSE(spec.contains(Task{"chief", 0}));
}

TEST_CASE("an empty cluster has nothing", "[cluster][host]") {
  const ClusterSpec spec;
  CHECK(spec.empty());
  CHECK(spec.jobs().empty());
  CHECK(spec.num_tasks() == 0);
  CHECK(spec == ClusterSpec({}));
  CHECK(text(spec) == "{}");
}

TEST_CASE("an unknown job or index is refused", "[cluster][host]") {
  const ClusterSpec spec{{"worker", {"w0", "w1"}}, {"ps", {{3, "p3"}}}};
  CHECK_THROWS_MATCHES(spec.tasks("chief"), InvalidArgument,
                       says("no job 'chief' in {ps: {3: p3}, worker: [w0, w1]}"));
  CHECK_THROWS_MATCHES(spec.num_tasks("chief"), InvalidArgument, says("no job 'chief'"));
  CHECK_THROWS_MATCHES(spec.is_sparse("chief"), InvalidArgument, says("no job 'chief'"));
  CHECK_THROWS_MATCHES(spec.task_address("chief", 0), InvalidArgument, says("no job 'chief'"));
  CHECK_THROWS_MATCHES(spec.task_address("worker", 2), InvalidArgument,
                       says("the job 'worker' has no task 2 in {"));
  CHECK_THROWS_MATCHES(spec.task_address("worker", -1), InvalidArgument, says("no task -1"));
  CHECK_THROWS_MATCHES(spec.task_address("ps", 0), InvalidArgument, says("'ps' has no task 0"));
  CHECK_THROWS_MATCHES(ClusterSpec().tasks("worker"), InvalidArgument, says("no job 'worker' in {}"));
}

TEST_CASE("a job is sparse by its indices, not by how it was given", "[cluster][host]") {
  const ClusterSpec spec{
      {"list", {"a", "b"}}, {"map", {{0, "a"}, {1, "b"}}},    {"hole", {{0, "a"}, {2, "b"}}},
      {"late", {{1, "a"}}}, {"last", {{2'147'483'647, "a"}}}, {"none", {}}};
  CHECK_FALSE(spec.is_sparse("list"));
  CHECK_FALSE(spec.is_sparse("map"));
  CHECK(spec.is_sparse("hole"));
  CHECK(spec.is_sparse("late"));
  CHECK(spec.is_sparse("last"));
  CHECK_FALSE(spec.is_sparse("none"));
  CHECK(spec.num_tasks("none") == 0);
}

TEST_CASE("clusters are equal when their tasks and addresses are", "[cluster][host]") {
  const ClusterSpec spec{{"worker", {"a", "b"}}};
  CHECK(spec == ClusterSpec{{"worker", {{1, "b"}, {0, "a"}}}});
  CHECK(spec == ClusterSpec{{"worker", std::vector<std::string>{"a", "b"}}});
  CHECK(spec == ClusterSpec(std::map<std::string, ClusterSpec::Tasks>{{"worker", {"a", "b"}}}));
  CHECK(spec != ClusterSpec{{"worker", {"b", "a"}}});
  CHECK(spec != ClusterSpec{{"chief", {"a", "b"}}});
}

TEST_CASE("what cannot be a cluster is refused", "[cluster][host]") {
  CHECK_THROWS_MATCHES((ClusterSpec{{"worker", {"a"}}, {"worker", {"b"}}}), InvalidArgument,
                       says("the job 'worker' occurs twice"));
  CHECK_THROWS_MATCHES((ClusterSpec{{"", {"a"}}}), InvalidArgument, says("a job has no name"));
  CHECK_THROWS_MATCHES(ClusterSpec(std::map<std::string, ClusterSpec::Tasks>{{"", {"a"}}}), InvalidArgument,
                       says("a job has no name"));
  CHECK_THROWS_MATCHES((ClusterSpec{{"ps", {{-1, "a"}}}}), InvalidArgument, says("index -1", "negative"));
  CHECK_THROWS_MATCHES((ClusterSpec{{"ps", {{3, "a"}, {3, "b"}}}}), InvalidArgument,
                       says("task 3 occurs twice, at 'a' and at 'b'"));
  CHECK_THROWS_MATCHES(ClusterSpec::Tasks(std::map<int, std::string>{{0, "a"}, {-2, "b"}}), InvalidArgument,
                       says("index -2", "negative"));
}

TEST_CASE("a cluster prints its first tasks", "[cluster][host]") {
  CHECK(text(ClusterSpec{{"worker", {"a", "", "c"}}, {"ps", {{1, "x"}, {4, "y"}}}, {"none", {}}}) ==
        "{none: [], ps: {1: x, 4: y}, worker: [a, ?, c]}");
  CHECK(text(ClusterSpec{{"worker", {"a", "b", "c", "d"}}}) == "{worker: [a, b, c, d]}");
  CHECK(text(ClusterSpec{{"worker", {"a", "b", "c", "d", "e", "f"}}}) == "{worker: [a, b, c, d, … 6 tasks]}");
  CHECK(text(Task{"worker", 3}) == "worker 3");
}

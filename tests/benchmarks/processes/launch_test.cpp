#include "processes/launch.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

// A cluster of a chief, two workers and a parameter server, as one of its tasks.
Launch as(const std::string& type, int index) {
  return find_launch(
      {{"TF_CONFIG", R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}, "task": )"
                     R"({"type": ")" +
                         type + R"(", "index": )" + std::to_string(index) + "}}"}});
}

}  // namespace

TEST_CASE("a benchmark without a launcher runs alone, without a word", "[benchmarks]") {
  const Launch launch = find_launch({});
  CHECK(launch.resolver == nullptr);
  CHECK(launch.process == 0);
  CHECK(launch.num_processes == 1);
  CHECK(launch.note.empty());
}

TEST_CASE("the chief and the workers of a cluster measure together", "[benchmarks]") {
  CHECK(as("chief", 0).process == 0);
  const Launch last = as("worker", 1);
  CHECK(last.process == 2);
  CHECK(last.num_processes == 3);
  CHECK(last.resolver != nullptr);
  CHECK(last.note.empty());
}

TEST_CASE("processes of mpirun measure together", "[benchmarks]") {
  const Launch launch = find_launch({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}});
  CHECK(launch.process == 1);
  CHECK(launch.num_processes == 3);
}

TEST_CASE("a task that is no worker runs alone, and says why", "[benchmarks]") {
  const Launch launch = as("ps", 0);
  CHECK(launch.resolver == nullptr);
  CHECK(launch.num_processes == 1);
  CHECK_THAT(launch.note, ContainsSubstring("runs alone: it is the task ps 0"));
}

TEST_CASE("a cluster of one worker is a process alone", "[benchmarks]") {
  const Launch launch = find_launch(
      {{"TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})"}});
  CHECK(launch.resolver == nullptr);
  CHECK(launch.note.empty());
}

TEST_CASE("a launcher that is not understood leaves a process alone, and says why", "[benchmarks]") {
  const Launch launch = find_launch({{"TF_CONFIG", "{"}});
  CHECK(launch.num_processes == 1);
  CHECK_THAT(launch.note,
             ContainsSubstring("runs alone, whatever launched it: ") && ContainsSubstring("TF_CONFIG"));
}

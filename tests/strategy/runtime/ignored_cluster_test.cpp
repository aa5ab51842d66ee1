#include "strategy/runtime/ignored_cluster.hpp"

#include <cstdlib>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/captured_stderr.hpp"

using namespace lockstep;

namespace {

std::string warning(const cluster::EnvironmentVariables& variables) {
  return test::captured_stderr([&] { detail::warn_if_cluster_is_ignored("MirroredStrategy", variables); });
}

constexpr const char* kWarning =
    "lockstep: MirroredStrategy: the environment variable TF_CONFIG is ignored; the replicas are this "
    "process's\n";
constexpr const char* kCluster = R"({"cluster": {"worker": ["a:1", "b:1"]}})";

}  // namespace

TEST_CASE("a cluster in TF_CONFIG is ignored with a line, whether or not it can be read",
          "[strategy][host]") {
  CHECK(warning({{"TF_CONFIG", kCluster}}) == kWarning);
  CHECK(warning({{"TF_CONFIG", "x"}}) == kWarning);
  CHECK(warning({}).empty());
  CHECK(warning({{"TF_CONFIG", ""}}).empty());
  CHECK(warning({{"TF_CONFIG", "{}"}}).empty());
  CHECK(warning({{"TF_CONFIG", R"({"task": {"type": "worker", "index": 0}})"}}).empty());
}

TEST_CASE("MirroredStrategy stays in its process though TF_CONFIG has a cluster", "[strategy][host]") {
  ::setenv("TF_CONFIG", kCluster, 1);
  int num_replicas = 0;
  const std::string told = test::captured_stderr([&] {
    const MirroredStrategy strategy({"CPU:0", "CPU:1"});
    num_replicas = strategy.num_replicas_in_sync();
  });
  ::unsetenv("TF_CONFIG");
  CHECK(told == kWarning);
  CHECK(num_replicas == 2);
}

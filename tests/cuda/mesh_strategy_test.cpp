#include <memory>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/strategy/mesh_strategy.hpp>

#include "support/test_backend.hpp"

using namespace lockstep;
using lockstep::test::TestBackend;

TEST_CASE("without an assignment the GPUs that a resolver counts are a mesh's replicas", "[mesh][cuda]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  MeshStrategy mesh(std::make_shared<cluster::SimpleResolver>(
      cluster::ClusterSpec{}, cluster::ResolverOptions{.num_accelerators = {{"GPU", 2}}}));
  REQUIRE(mesh.extended().worker_devices() == devices);
  REQUIRE(mesh.num_logical_devices() == 1);
}

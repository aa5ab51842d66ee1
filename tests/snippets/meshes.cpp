// Examples of the documentation: replicas of several devices each.
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

TEST_CASE("the examples of meshes are right", "[docs]") {
  //! [Topology, DeviceAssignment, AssignmentOptions]
  ls::Topology line({4}, {{{0}, {1}, {2}, {3}}},
                    ls::DeviceKind::cpu);  // CPU:0 to CPU:3 of one task, in a row
  auto pairs = ls::DeviceAssignment::build(line, {.computation_shape = {2}, .num_replicas = 2});
  ls::Device second = pairs.device(/*replica=*/1, /*logical_core=*/0);  // CPU:2
  //! [Topology, DeviceAssignment, AssignmentOptions]
  CHECK(second.index() == 2);

  //! [MeshStrategy, LogicalDeviceScope]
  ls::MeshStrategy strategy(pairs);
  auto weights_on = [&](int k) {
    ls::LogicalDeviceScope here = strategy.extended().logical_device(k);
    return strategy.make_variable(ls::Tensor::ones({2, 2}));
  };
  ls::Variable first = weights_on(0), last = weights_on(1);
  auto results = strategy.run([&] {
    ls::Tensor hidden = ls::matmul(ls::Tensor::ones({1, 2}), first);  // on logical device 0
    return ls::matmul(strategy.assign_to_logical_device(hidden, 1), last);
  });
  //! [MeshStrategy, LogicalDeviceScope]
  CHECK(results[1].device() == "CPU:3");
  CHECK(results[1].to_vector<float>() == std::vector<float>{4, 4});
}

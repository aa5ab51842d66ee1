// What tests/contract/strategy/overlap_contract.cpp cannot say: what is copied.
#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/num_copies.hpp"
#include "support/replica_values.hpp"

namespace lockstep::test {

TEST_CASE("a PackedReduction copies no value on the host", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3);
  const std::int64_t bytes_per_pack = GENERATE(0, 1);
  Replicas strategy(n);
  const auto values = strategy.run([] { return Tensor::ones({1000, 100}); });
  const auto step = [&] {
    strategy.run([&](ReplicaContext& context) {
      PackedReduction reduction(context, ReduceOp::mean, {.bytes_per_pack = bytes_per_pack});
      for (int k = 0; k < 3; ++k) reduction.add(values[context.local_index()]);
      static_cast<void>(reduction.wait());
    });
  };
  step();
  const std::int64_t before = num_copied_bytes();
  step();
  CHECK(num_copied_bytes() == before);
  static_cast<void>(values[0].clone());
  CHECK(num_copied_bytes() == before + values[0].nbytes());  // what is counted
}

}  // namespace lockstep::test

// What tests/contract/strategy/overlap_contract.cpp cannot say: what is copied.
#include <cstdint>
#include <memory>
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
  const auto what = GENERATE(PackedReduction::Values::kept, PackedReduction::Values::given);
  if (n == 1 && what == PackedReduction::Values::kept) return;  // the result is a copy
  Replicas strategy(n);
  const auto values = strategy.run([] { return Tensor::ones({1000, 100}); });
  const auto step = [&] {
    strategy.run([&](ReplicaContext& context) {
      PackedReduction reduction(context, ReduceOp::mean, {.bytes_per_pack = bytes_per_pack}, what);
      for (int k = 0; k < 3; ++k) reduction.add(values[context.local_index()].slice(300 * k, 300 * k + 300));
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

TEST_CASE("a PackedReduction leaves results where values were given", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3);
  const std::int64_t bytes_per_pack = GENERATE(0, 1);
  Replicas strategy(n);
  const auto right = strategy.run([&](ReplicaContext& context) {
    const auto id = static_cast<float>(context.replica_id_in_sync_group());
    const float mean = static_cast<float>(n - 1) / 2;
    const Tensor whole = Tensor::full({2, 100}, id), table = Tensor::full({4, 3}, id);
    const Tensor shown = Tensor::full({5}, id).read_only(), counts = Tensor::full({2}, 3);
    PackedReduction reduction(context, ReduceOp::mean, {.bytes_per_pack = bytes_per_pack},
                              PackedReduction::Values::given);
    bool is_right = true;
    for (int round = 0; round < 2; ++round) {
      for (const Tensor& value : {whole.slice(0, 1), whole.slice(1, 2), table.narrow(1, 0, 2), shown, counts})
        reduction.add(value);
      const std::vector<Tensor> means = reduction.wait();
      is_right = is_right && means.size() == 5 && means[0].view().data == whole.view().data &&
                 whole.to_vector<float>() == std::vector<float>(200, mean);
      // What cannot have its result there stays.
      is_right = is_right && means[2].to_vector<float>() == std::vector<float>(8, mean) &&
                 table.to_vector<float>() == std::vector<float>(12, id) &&
                 means[3].to_vector<float>() == std::vector<float>(5, mean) &&
                 shown.to_vector<float>() == std::vector<float>(5, id) &&
                 means[4].dtype() != counts.dtype() && counts.to_vector<std::int32_t>() == std::vector{3, 3};
    }
    return is_right;
  });
  for (const bool is_right : right) CHECK(is_right);
}

TEST_CASE("cross-device operations of one's own leave values that are given", "[strategy][host]") {
  MirroredStrategy strategy(TestBackend::devices(2), std::make_unique<ReductionToOneDevice>());
  const auto values = strategy.run([] { return Tensor::ones({3}); });
  const auto sums = strategy.run([&](ReplicaContext& context) {
    PackedReduction reduction(context, ReduceOp::sum, {}, PackedReduction::Values::given);
    reduction.add(values[context.local_index()]);
    return reduction.wait()[0];
  });
  for (int i = 0; i < 2; ++i) {
    CHECK(sums[i].to_vector<float>() == std::vector<float>(3, 2));
    CHECK(values[i].to_vector<float>() == std::vector<float>(3, 1));
  }
}

TEST_CASE("values that are given to a PackedReduction must not overlap", "[strategy][host]") {
  Replicas strategy(2);
  CHECK_THROWS_AS(strategy.run([](ReplicaContext& context) {
    PackedReduction reduction(context, ReduceOp::sum, {}, PackedReduction::Values::given);
    const Tensor value = Tensor::ones({4});
    reduction.add(value);
    reduction.add(value);
    return reduction.wait();
  }),
                  InvalidArgument);
}

}  // namespace lockstep::test

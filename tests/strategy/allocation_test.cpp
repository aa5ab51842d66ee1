// Nothing is allocated per step in steady state: the heap's calls are counted.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/steady_state.hpp"

namespace ls = lockstep;
using ls::test::allocations_in_run;
using ls::test::host_strategy;
using ls::test::num_allocations;

namespace {
struct alignas(64) Aligned {
  int value = 1;
};
}  // namespace

TEMPLATE_TEST_CASE("the counter counts", "[strategy][host]", int, Aligned) {
  const std::int64_t before = num_allocations();
  const auto value = std::make_unique<TestType>();
  const TestType* volatile seen = value.get();  // or the compiler may leave the allocation out
  const std::int64_t after = num_allocations();
  REQUIRE(seen != nullptr);
  REQUIRE(after == before + 1);
}

TEST_CASE("run allocates nothing in steady state", "[strategy][host]") {
  ls::MirroredStrategy strategy = host_strategy(GENERATE(1, 2, 3, 7));
  std::atomic<int> calls = 0;
  const int a = 1, b = 2, c = 3;
  const auto step = [&](ls::ReplicaContext&) { calls += a + b + c; };
  for (int i = 0; i < 20; ++i) strategy.run(step);
  const std::int64_t before = num_allocations();
  for (int i = 0; i < 100; ++i) strategy.run(step);
  REQUIRE(num_allocations() == before);
  REQUIRE(calls == 120 * 6 * strategy.num_replicas_in_sync());
}

TEST_CASE("merge_call in a run allocates nothing in steady state", "[strategy][host]") {
  ls::MirroredStrategy strategy = host_strategy(GENERATE(1, 2, 3, 7));
  int calls = 0;
  REQUIRE(allocations_in_run(strategy, [&](ls::ReplicaContext& context) {
            context.merge_call([&](ls::Strategy&) { ++calls; });
          }) == 0);
  REQUIRE(calls >= ls::test::kFirstSteps + ls::test::kSteps);
}

TEST_CASE("all_reduce in a run allocates nothing in steady state", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3, 7);
  const std::int64_t size = GENERATE(1, 1000, 100'000);
  const auto op = GENERATE(ls::ReduceOp::sum, ls::ReduceOp::mean);
  ls::MirroredStrategy strategy = host_strategy(n);
  std::vector<ls::Tensor> values;
  for (int i = 0; i < n; ++i)
    values.push_back(ls::Tensor::full({size}, 1.0f, ls::DType::f32, ls::Device(ls::DeviceKind::cpu, i)));
  std::atomic<int> wrong = 0;
  REQUIRE(allocations_in_run(strategy, [&](ls::ReplicaContext& context) {
            const ls::Tensor& mine = values[static_cast<std::size_t>(context.replica_id_in_sync_group())];
            if (context.all_reduce(op, mine).size() != size) ++wrong;
          }) == 0);
  REQUIRE(allocations_in_run(strategy, [&](ls::ReplicaContext& context) {
            const float expected = op == ls::ReduceOp::sum ? static_cast<float>(n) : 1.0f;
            if (context.all_reduce(op, 1.0f).item<float>() != expected) ++wrong;
          }) == 0);
  REQUIRE(wrong == 0);
}

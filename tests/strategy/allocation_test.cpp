// Nothing is allocated per step in steady state: the heap's calls are counted.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/num_allocations.hpp"

namespace ls = lockstep;
using ls::test::num_allocations;

namespace {

ls::MirroredStrategy make_strategy(int n) {
  std::vector<ls::Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(ls::DeviceKind::cpu, i);
  return ls::MirroredStrategy(devices);
}

// Heap allocations, on all threads, of `step` on every replica, many times within one run.
std::int64_t allocations_in_run(ls::Strategy& strategy,
                                const std::function<void(ls::ReplicaContext&)>& step) {
  std::int64_t before = 0, after = 0;
  strategy.run([&](ls::ReplicaContext& context) {
    const auto all_are_here = [&] { context.merge_call([](ls::Strategy&) {}); };
    for (int i = 0; i < 20; ++i) step(context);
    all_are_here();
    if (context.replica_id_in_sync_group() == 0) before = num_allocations();
    all_are_here();
    for (int i = 0; i < 100; ++i) step(context);
    all_are_here();
    if (context.replica_id_in_sync_group() == 0) after = num_allocations();
    all_are_here();
  });
  return after - before;
}

}  // namespace

TEST_CASE("the counter counts", "[strategy][host]") {
  const std::int64_t before = num_allocations();
  const auto value = std::make_unique<int>(1);
  const int* volatile seen = value.get();  // or the compiler may leave the allocation out
  REQUIRE(*seen == 1);
  REQUIRE(num_allocations() == before + 1);
}

TEST_CASE("run allocates nothing in steady state", "[strategy][host]") {
  ls::MirroredStrategy strategy = make_strategy(GENERATE(1, 2, 3, 7));
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
  ls::MirroredStrategy strategy = make_strategy(GENERATE(1, 2, 3, 7));
  int calls = 0;
  REQUIRE(allocations_in_run(strategy, [&](ls::ReplicaContext& context) {
            context.merge_call([&](ls::Strategy&) { ++calls; });
          }) == 0);
  REQUIRE(calls == 120);
}

TEST_CASE("all_reduce in a run allocates nothing in steady state", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3, 7);
  const std::int64_t size = GENERATE(1, 1000, 100'000);
  const auto op = GENERATE(ls::ReduceOp::sum, ls::ReduceOp::mean);
  ls::MirroredStrategy strategy = make_strategy(n);
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

TEST_CASE("an all_reduce of a list allocates as often for many values as for few", "[strategy][host]") {
  constexpr int kReplicas = 2, kSteps = 100;
  ls::MirroredStrategy strategy = make_strategy(kReplicas);
  const auto allocations = [&](std::size_t num_values) {
    std::vector<std::vector<ls::Tensor>> values(kReplicas);
    for (int i = 0; i < kReplicas; ++i)
      for (std::size_t k = 0; k < num_values; ++k)
        values[static_cast<std::size_t>(i)].push_back(
            ls::Tensor::ones({10}, ls::DType::f32, ls::Device(ls::DeviceKind::cpu, i)));
    return allocations_in_run(strategy,
                              [&](ls::ReplicaContext& context) {
                                context.all_reduce(
                                    ls::ReduceOp::sum,
                                    values[static_cast<std::size_t>(context.replica_id_in_sync_group())]);
                              }) /
           kSteps;
  };
  // The text of the list's structure grows, by doubling.
  REQUIRE(allocations(64) - allocations(8) <= 4 * kReplicas);
}

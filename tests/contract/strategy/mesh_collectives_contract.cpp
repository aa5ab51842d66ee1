#include <atomic>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/mesh.hpp"
#include "support/replica_values.hpp"

/// Collectives over the replicas' logical devices of one number.
namespace lockstep::test {

using enum ReduceOp;
using namespace std::chrono_literals;

namespace {

/// Replica r's `size` elements, all `first` + r, on its logical device k.
PerReplica<Tensor> values_on(const Strategy& mesh, int k, float first, std::int64_t size = 4) {
  std::vector<Tensor> components;
  for (const Device& device : logical_devices(mesh, k))
    components.push_back(
        Tensor::full(Shape(size), first + static_cast<float>(components.size()), DType::f32, device));
  return PerReplica(std::move(components));
}

std::vector<float> firsts(const Mirrored<Tensor>& tensors) {
  std::vector<float> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.slice(0, 1).item<float>());
  return values;
}

}  // namespace

TEST_CASE("all_reduce runs over the logical device of the guard, two interleaved", "[strategy][mesh]") {
  const std::int64_t size = GENERATE(1, 1000, 100'000);
  Mesh mesh(2, 2);
  const auto result = mesh.run([&](ReplicaContext& ctx) {
    std::vector<Tensor> sums;
    for (int round = 0; round < 3; ++round) {
      for (const int k : {1, 0, 1}) {
        const auto guard = ctx.logical_device(k);
        const Tensor value = Tensor::full({size}, id_of(ctx) + static_cast<float>(10 * k + round));
        sums.push_back(ctx.all_reduce(sum, value));
      }
    }
    return sums;
  });
  std::size_t next = 0;
  for (int round = 0; round < 3; ++round) {
    for (const int k : {1, 0, 1}) {
      const PerReplica<Tensor>& sums = result[next++];
      REQUIRE(devices_of(sums) == logical_devices(mesh, k));
      const std::vector<float> expected(static_cast<std::size_t>(size),
                                        static_cast<float>(20 * k + 2 * round + 1));
      for (const Tensor& one : sums) REQUIRE(one.to_vector<float>() == expected);
    }
  }
}

TEST_CASE("every collective of a replica runs over its logical device", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const auto one = [](ReplicaContext& ctx) {
    const auto guard = ctx.logical_device(1);
    const Tensor mine = Tensor::full({2}, id_of(ctx) + 1.0f);
    const auto nest = ctx.all_reduce(mean, std::map<std::string, Tensor>{{"a", mine}, {"b", mine * 2.0f}});
    const auto rows = ctx.all_gather(mine, 0);
    const auto sparse = ctx.all_reduce(
        sum, IndexedSlices{mine.reshape({1, 2}),
                           Tensor::full({1}, std::int64_t{ctx.replica_id_in_sync_group()}), Shape{3, 2}});
    auto started = ctx.start_all_reduce(max, mine);
    const Tensor largest = started.wait();
    PackedReduction packed(ctx, sum);
    packed.add(mine);
    packed.add(mine * 3.0f);
    const auto packs = packed.wait();
    return std::vector<Tensor>{nest.at("a"), nest.at("b"), rows,    sparse.to_dense(),
                               largest,      packs[0],     packs[1]};
  };
  const auto results = mesh.run(one);
  const std::vector<std::vector<float>> expected = {{1.5f, 1.5f}, {3, 3}, {1, 1, 2, 2}, {1, 1, 2, 2, 0, 0},
                                                    {2, 2},       {3, 3}, {9, 9}};
  REQUIRE(results.size() == expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    REQUIRE(devices_of(results[k]) == logical_devices(mesh, 1));
    for (const Tensor& component : results[k]) REQUIRE(component.to_vector<float>() == expected[k]);
  }
}

TEST_CASE("a tensor on another logical device is brought to the current one first", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const auto sums = mesh.run([](ReplicaContext& ctx) {
    Tensor value;
    {
      const auto guard = ctx.logical_device(1);
      value = Tensor::scalar(id_of(ctx) + 1.0f);
    }
    return ctx.all_reduce(sum, value);
  });
  REQUIRE(devices_of(sums) == logical_devices(mesh, 0));
  REQUIRE(items<float>(sums) == std::vector<float>{3, 3});
}

TEST_CASE("replicas on different logical devices disagree", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const bool gathers = GENERATE(false, true);
  const auto disagree = [&](ReplicaContext& ctx) {
    const auto guard = ctx.logical_device(ctx.local_index());
    const Tensor mine = Tensor::ones({2});
    return gathers ? ctx.all_gather(mine, 0) : ctx.all_reduce(sum, mine);
  };
  REQUIRE_THROWS_MATCHES(mesh.run(disagree), CollectiveMismatch,
                         says(gathers ? "all_gather" : "all_reduce(sum)",
                              "replica 1 calls it on logical device 1", "replica 0 on logical device 0"));
  REQUIRE(mesh.last_failures().size() == 2);
  const auto sums = mesh.run([](ReplicaContext& ctx) { return ctx.all_reduce(sum, Tensor::scalar(1.0f)); });
  REQUIRE(items<float>(sums) == std::vector<float>{2, 2});
}

TEST_CASE("failures on a logical device release the others, and it can be used again", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const auto reduce_on_1 = [](ReplicaContext& ctx, std::int64_t size) {
    const auto guard = ctx.logical_device(1);
    return ctx.all_reduce(sum, Tensor::ones({size}));
  };
  REQUIRE_THROWS_AS(mesh.run([&](ReplicaContext& ctx) {
    if (ctx.local_index() == 1) throw std::runtime_error("replica 1");
    reduce_on_1(ctx, 2);
  }),
                    std::runtime_error);
  REQUIRE_THROWS_MATCHES(
      mesh.run([&](ReplicaContext& ctx) {
        if (ctx.local_index() == 1) reduce_on_1(ctx, 2);
      }),
      ContextError,
      says("all_reduce(sum), call 0", "replica 0 (" + TestBackend::device(0).to_string() + ", " +
                                          TestBackend::device(1).to_string() + ") has returned"));
  REQUIRE_THROWS_MATCHES(mesh.run([&](ReplicaContext& ctx) { reduce_on_1(ctx, 2 + ctx.local_index()); }),
                         CollectiveMismatch, says("[3]", "[2]"));
  REQUIRE_THROWS_MATCHES(mesh.run([&](ReplicaContext& ctx) {
    if (ctx.local_index() == 0)
      reduce_on_1(ctx, 2);
    else
      ctx.merge_call([](Strategy&) {});
  }),
                         CollectiveMismatch, says("all_reduce", "merge_call"));
  const auto sums = mesh.run([&](ReplicaContext& ctx) { return reduce_on_1(ctx, 1); });
  REQUIRE(items<float>(sums) == std::vector<float>{2, 2});
}

TEST_CASE("a missing replica runs into the time limit on a logical device, too", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  std::atomic<bool> is_over = false;
  const auto reduce_late = [&](ReplicaContext& ctx) {
    const auto guard = ctx.logical_device(1);
    if (ctx.local_index() == 1) is_over.wait(false);
    try {
      static_cast<void>(ctx.all_reduce(sum, Tensor::ones({1}), {.timeout = 20ms}));
    } catch (...) {
      is_over = true;
      is_over.notify_all();
      throw;
    }
  };
  REQUIRE_THROWS_MATCHES(mesh.run(reduce_late), CollectiveTimeout, says("all_reduce"));
}

TEST_CASE("reductions in cross-replica context run where the destination or the values are",
          "[strategy][mesh]") {
  Mesh mesh(2, 2);
  auto& x = mesh.extended();
  const int k = GENERATE(0, 1);
  const PerReplica<Tensor> values = values_on(mesh, k, 1);
  const auto everywhere = x.reduce_to(sum, values, values);
  REQUIRE(devices_of(everywhere) == logical_devices(mesh, k));
  REQUIRE(firsts(everywhere) == std::vector<float>{3, 3});
  const auto to_one = x.reduce_to(sum, values, logical_devices(mesh, k)[1]);
  REQUIRE(devices_of(to_one) == std::vector{logical_devices(mesh, k)[1]});
  REQUIRE(firsts(to_one) == std::vector<float>{3});
  // Onto the other logical device.
  const auto across = x.reduce_to(mean, values, values_on(mesh, 1 - k, 0));
  REQUIRE(devices_of(across) == logical_devices(mesh, 1 - k));
  REQUIRE(firsts(across) == std::vector<float>{1.5f, 1.5f});
  REQUIRE(mesh.reduce(sum, values).to_vector<float>() == std::vector<float>{3, 3, 3, 3});
  REQUIRE(mesh.reduce(mean, values, 0).item<float>() == 1.5f);
  REQUIRE(mesh.gather(values, 0).to_vector<float>() == std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2});
}

TEST_CASE("one batch may go to several logical devices", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  auto& x = mesh.extended();
  const std::int64_t size = GENERATE(4, 100'000);  // beyond: on the replicas' threads
  std::vector<std::pair<ReduceValue, Destination>> pairs;
  for (int i = 0; i < 6; ++i) {
    const PerReplica<Tensor> values = values_on(mesh, i % 2, static_cast<float>(i), size);
    pairs.emplace_back(values, values);
  }
  const auto check = [&](const std::vector<Mirrored<Tensor>>& results) {
    REQUIRE(results.size() == 6);
    for (int i = 0; i < 6; ++i) {
      const Mirrored<Tensor>& result = results[static_cast<std::size_t>(i)];
      REQUIRE(devices_of(result) == logical_devices(mesh, i % 2));
      const auto expected = static_cast<float>(2 * i + 1);
      REQUIRE(firsts(result) == std::vector<float>{expected, expected});
    }
  };
  check(x.batch_reduce_to(sum, pairs));
  auto work = x.start_batch_reduce_to(sum, pairs);
  check(work.wait());
}

TEST_CASE("broadcast_to fills the guard's logical device, or the destination's", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  auto& x = mesh.extended();
  const Tensor value = Tensor::from<float>({1, 2}, {2});
  REQUIRE(devices_of(x.broadcast_to(value)) == logical_devices(mesh, 0));
  REQUIRE(devices_of(x.broadcast_to(value, values_on(mesh, 1, 0))) == logical_devices(mesh, 1));
  const auto guard = x.logical_device(1);
  const auto copies = x.broadcast_to(value);
  REQUIRE(devices_of(copies) == logical_devices(mesh, 1));
  for (const Tensor& copy : copies) REQUIRE(copy.to_vector<float>() == std::vector<float>{1, 2});
  REQUIRE(devices_of(x.broadcast_to(value, values_on(mesh, 0, 0))) == logical_devices(mesh, 0));
}

TEST_CASE("one replica on four logical devices", "[strategy][mesh]") {
  Mesh mesh(1, 4);
  auto& x = mesh.extended();
  for (int k = 0; k < 4; ++k) {
    const auto guard = x.logical_device(k);
    const auto reduced = mesh.run(
        [](ReplicaContext& ctx) { return ctx.all_reduce(mean, Tensor::full({2}, std::int32_t{3})); });
    REQUIRE(reduced[0].device() == TestBackend::device(k));
    REQUIRE(reduced[0].to_vector<double>() == std::vector<double>{3, 3});
    const PerReplica<Tensor> values = values_on(mesh, k, 5);
    REQUIRE(firsts(x.reduce_to(sum, values, values)) == std::vector<float>{5});
  }
}

}  // namespace lockstep::test

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/expected.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// StrategyExtended::reduce_to, batch_reduce_to and broadcast_to.
namespace lockstep::test {

using enum ReduceOp;

namespace {

std::vector<Device> devices_of(const Mirrored<Tensor>& value) {
  std::vector<Device> devices;
  for (const Tensor& component : value) devices.push_back(component.device());
  return devices;
}

PerReplica<IndexedSlices> rows_of_a_table() {
  const Device first = TestBackend::device(0), second = TestBackend::device(1);
  return PerReplica(std::vector{
      IndexedSlices{
          Tensor::from<float>({1, 2}, {1, 2}, first), Tensor::from<std::int64_t>({1}, {1}, first), {5, 2}},
      IndexedSlices{Tensor::from<float>({3, 4, 5, 6}, {2, 2}, second),
                    Tensor::from<std::int64_t>({1, 3}, {2}, second),
                    {5, 2}}});
}

}  // namespace

TEST_CASE("reduce-to-destinations: a variable, a device, the value itself", "[strategy][reduce_to]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  auto& x = strategy.extended();
  const auto value = scalars<float>({0, 1});
  const Variable variable(Tensor::scalar(7.0f));
  const std::vector<Device> all = TestBackend::devices(2);
  const auto check = [&](const Destination& destination, const std::vector<Device>& expected) {
    const auto average = x.reduce_to(mean, value, destination);
    const auto total = x.reduce_to(sum, value, destination);
    REQUIRE(devices_of(average) == expected);
    REQUIRE(devices_of(total) == expected);
    REQUIRE(items<float>(average) == std::vector<float>(expected.size(), 0.5f));
    REQUIRE(items<float>(total) == std::vector<float>(expected.size(), 1.0f));
  };
  check(variable, all);
  check("CPU:0", {Device()});
  check(value, all);
  check(all[1], {all[1]});
  check(Tensor::scalar(3, all[1]), {all[1]});
  check(x.broadcast_to(Tensor::scalar(3)), all);
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{7, 7});  // not changed
  REQUIRE(items<float>(value) == std::vector<float>{0, 1});
}

TEST_CASE("a list of devices is no destination", "[strategy][reduce_to]") {
  Replicas strategy(2);
  auto& x = strategy.extended();
  const auto value = scalars<float>({0, 1});
  const std::vector<Device> list = TestBackend::devices(2);
  REQUIRE_THROWS_MATCHES(x.reduce_to(sum, value, list), InvalidArgument,
                         says("a list of 2 devices is not a destination"));
  REQUIRE_THROWS_MATCHES(x.reduce_to(sum, value, std::vector<Device>()), InvalidArgument,
                         says("a list of 0 devices"));
  REQUIRE_THROWS_MATCHES(x.broadcast_to(Tensor::scalar(1), list), InvalidArgument,
                         says("is not a destination"));
  REQUIRE_THROWS_MATCHES(x.reduce_to(sum, value, "nowhere"), InvalidArgument, says("nowhere"));
  REQUIRE_THROWS_MATCHES(x.reduce_to(sum, value, ""), InvalidArgument,
                         says("Destination: the name is empty", "Name a device"));
  REQUIRE_THROWS_AS(x.broadcast_to(Tensor::scalar(1), ""), InvalidArgument);
}

TEST_CASE("P36 destinations are devices, not replica numbers", "[strategy][reduce_to]") {
  if (TestBackend::num_devices() < 4) SKIP("needs 4 devices");
  const Device two = TestBackend::device(2), three = TestBackend::device(3);
  MirroredStrategy strategy({two, three});
  const PerReplica value(std::vector{Tensor::scalar(0.0f, two), Tensor::scalar(10.0f, three)});
  const auto reduced = strategy.extended().reduce_to(sum, value, three);
  REQUIRE(devices_of(reduced) == std::vector{three});
  REQUIRE(reduced[0].item<float>() == 10.0f);
  const auto everywhere = strategy.extended().broadcast_to(value[1]);
  REQUIRE(devices_of(everywhere) == std::vector{two, three});
  REQUIRE(items<float>(everywhere) == std::vector<float>{10, 10});
}

TEST_CASE("reduce_to gives means of mirrored and plain values back, not moved", "[strategy][reduce_to]") {
  Replicas strategy(2);
  auto& x = strategy.extended();
  const auto mirrored = x.broadcast_to(Tensor::scalar(3.0f));
  const auto same = x.reduce_to(mean, mirrored, "CPU:0");
  REQUIRE(same.size() == 2);
  REQUIRE(same[1].is_same_object(mirrored[1]));
  const Tensor plain = Tensor::scalar(4.0f, TestBackend::device(1));
  const auto kept = x.reduce_to(mean, plain, "CPU:0");
  REQUIRE(kept.size() == 1);
  REQUIRE(kept[0].is_same_object(plain));
}

TEST_CASE("reduce_to refuses sums of mirrored and plain values", "[strategy][reduce_to]") {
  Replicas strategy(2);
  auto& x = strategy.extended();
  const auto mirrored = x.broadcast_to(Tensor::scalar(3.0f));
  REQUIRE_THROWS_MATCHES(x.reduce_to(sum, mirrored, mirrored), InvalidArgument,
                         says("reduce_to(sum)", "mirrored"));
  REQUIRE_THROWS_MATCHES(x.reduce_to(sum, Tensor::scalar(1.0f), mirrored), InvalidArgument,
                         says("reduce_to(sum)", "plain"));
  REQUIRE_THROWS_MATCHES(x.reduce_to(sum, 0, mirrored), InvalidArgument, says("plain"));
}

TEST_CASE("reduce_to with one replica copies sums to the destinations", "[strategy][reduce_to]") {
  Replicas strategy(1);
  auto& x = strategy.extended();
  const Device elsewhere = TestBackend::kKind == DeviceKind::cpu ? Device("CPU:5") : Device("CPU:0");
  const auto moved = x.reduce_to(sum, Tensor::scalar(4.0f, TestBackend::device()), elsewhere);
  REQUIRE(devices_of(moved) == std::vector{elsewhere});
  REQUIRE(moved[0].item<float>() == 4.0f);
  REQUIRE(x.reduce_to(sum, strategy.run([] { return 2.0f; }), elsewhere)[0].item<float>() == 2.0f);
  // Results are used unwrapped.
  REQUIRE((moved + Tensor::scalar(1.0f, elsewhere)).item<float>() == 5.0f);
}

TEST_CASE("reduce_to refuses components that do not match", "[strategy][reduce_to]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.extended().reduce_to(sum, vectors<float>({{1}, {1, 2}}), "CPU:0"),
                         InvalidArgument, says("reduce_to(sum)", "replica 1", "[2] float32", "[1] float32"));
  REQUIRE_THROWS_MATCHES(strategy.extended().reduce_to(sum, scalars<bool>({true, false}), "CPU:0"),
                         InvalidArgument, says("bool"));
}

TEST_CASE("P08 reduce_to and batch_reduce_to give each operator its own result", "[strategy][reduce_to]") {
  const auto [op, expected] = GENERATE(
      table<ReduceOp, float>({{sum, 7.0f}, {mean, 3.5f}, {min, 2.0f}, {max, 5.0f}, {product, 10.0f}}));
  Replicas strategy(2);
  auto& x = strategy.extended();
  const auto value = scalars<float>({2, 5});
  REQUIRE(items<float>(x.reduce_to(op, value, value)) == std::vector<float>{expected, expected});
  REQUIRE(x.reduce_to(op, value, TestBackend::device(1))[0].item<float>() == expected);
  const auto batch =
      x.batch_reduce_to(op, {{value, value}, {value, "CPU:0"}, {value, TestBackend::device(1)}});
  REQUIRE(items<float>(batch[0]) == std::vector<float>{expected, expected});
  REQUIRE(batch[1][0].item<float>() == expected);
  REQUIRE(batch[2][0].item<float>() == expected);
}

TEST_CASE("batch-reduce-mixed-destinations: results come in order", "[strategy][reduce_to]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(0.0f));
  const auto a = scalars<float>({0, 1}), b = scalars<float>({1, 2});
  auto& x = strategy.extended();
  const auto average = x.batch_reduce_to(mean, {{a, variable}, {b, "CPU:0"}});
  REQUIRE(average.size() == 2);
  REQUIRE(items<float>(average[0]) == std::vector<float>{0.5f, 0.5f});
  REQUIRE(items<float>(average[1]) == std::vector<float>{1.5f});
  const auto total = x.batch_reduce_to(sum, {{a, variable}, {b, "CPU:0"}});
  REQUIRE(items<float>(total[0]) == std::vector<float>{1, 1});
  REQUIRE(items<float>(total[1]) == std::vector<float>{3});
}

TEST_CASE("an empty batch has no results", "[strategy][reduce_to]") {
  Replicas strategy(2);
  REQUIRE(strategy.extended().batch_reduce_to(sum, {}).empty());
}

TEST_CASE("P25 a batch of mixed dtypes and odd lengths equals the single reductions",
          "[strategy][reduce_to]") {
  const int n = GENERATE(1, 2, 3);
  const std::int64_t bytes_per_pack = GENERATE(0, 1, 64, 1 << 20);
  Replicas strategy(n);
  auto& x = strategy.extended();
  const CommunicationOptions options{.bytes_per_pack = bytes_per_pack, .deterministic = true};
  std::vector<std::pair<ReduceValue, Destination>> pairs;
  std::vector<PerReplica<Tensor>> values;
  for (const DType dtype : {DType::f16, DType::f32, DType::i8, DType::f64, DType::bf16, DType::i64}) {
    for (const std::int64_t length : {0, 1, 3, 31, 1025}) {
      std::vector<Tensor> components;
      for (int i = 0; i < n; ++i)
        components.push_back(
            Tensor::arange(0.0f, static_cast<float>(length), 1.0f, DType::f32, TestBackend::device(i))
                .cast(dtype));
      values.emplace_back(std::move(components));
    }
  }
  for (const auto& value : values) pairs.emplace_back(value, value);
  for (const ReduceOp op : {sum, mean, max}) {
    const auto batch = x.batch_reduce_to(op, pairs, options);
    REQUIRE(batch.size() == values.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      CAPTURE(op, k);
      const auto single = x.reduce_to(op, values[k], values[k], options);
      REQUIRE(batch[k].size() == n);
      REQUIRE(batch[k][0].dtype() == single[0].dtype());
      for (int i = 0; i < n; ++i)
        REQUIRE(batch[k][i].cast(DType::f64).to_vector<double>() ==
                single[0].cast(DType::f64).to_vector<double>());
    }
  }
}

TEST_CASE("large values take all replicas' threads and give the same", "[strategy][reduce_to]") {
  const int n = GENERATE(1, 2, 3);
  Replicas strategy(n);
  std::vector<Tensor> components;
  for (int i = 0; i < n; ++i)
    components.push_back(
        Tensor::full({1 << 18}, static_cast<float>(i + 1), DType::f32, TestBackend::device(i)));
  const PerReplica value(std::move(components));
  auto& x = strategy.extended();
  const float expected = static_cast<float>(triangular(n + 1));
  for (const Destination& destination :
       {Destination(value), Destination(TestBackend::device(n - 1)), Destination("CPU:0")}) {
    const auto total = x.reduce_to(sum, value, destination);
    REQUIRE(total.size() == static_cast<int>(destination.devices().size()));
    for (const Tensor& component : total) {
      REQUIRE(lockstep::min(component).item<float>() == expected);
      REQUIRE(lockstep::max(component).item<float>() == expected);
    }
  }
  REQUIRE(value[n - 1].slice(0, 1).item<float>() == static_cast<float>(n));  // P30
}

TEST_CASE("P30 reduce_to changes no source, the root's included", "[strategy][reduce_to]") {
  Replicas strategy(3);
  const auto value = vectors<float>({{1, 2}, {3, 4}, {5, 6}});
  for (const Destination& destination :
       {Destination(value), Destination(TestBackend::device(0)), Destination(TestBackend::device(2))}) {
    const auto total = strategy.extended().reduce_to(sum, value, destination);
    for (const Tensor& component : total) REQUIRE(component.to_vector<float>() == std::vector<float>{9, 12});
    for (int i : {0, 1, 2}) {
      const float first = static_cast<float>(2 * i + 1);
      REQUIRE(value[i].to_vector<float>() == std::vector<float>{first, first + 1});
      REQUIRE_FALSE(total[0].is_same_object(value[i]));
    }
  }
}

TEST_CASE("P28 broadcast_to of a strided view copies its elements", "[strategy][reduce_to]") {
  Replicas strategy(2);
  const Tensor matrix = Tensor::from<float>({1, 2, 3, 4}, {2, 2}, TestBackend::device(0));
  const auto everywhere = strategy.extended().broadcast_to(matrix.narrow(1, 0, 1));
  REQUIRE(everywhere[1].to_vector<float>() == std::vector<float>{1, 3});
  REQUIRE(matrix.to_vector<float>() == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("broadcast_to copies to all worker devices, or to the destinations", "[strategy][reduce_to]") {
  const int n = GENERATE(1, 2, 3);
  Replicas strategy(n);
  auto& x = strategy.extended();
  const std::vector<Device> all = TestBackend::devices(n);
  for (const Device& source : {all[static_cast<std::size_t>(n - 1)], Device()}) {
    const Tensor value = Tensor::scalar(5.0f, source);
    REQUIRE(devices_of(x.broadcast_to(value)) == all);
    REQUIRE(items<float>(x.broadcast_to(value)) == std::vector<float>(static_cast<std::size_t>(n), 5.0f));
  }
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(0.0f));
  REQUIRE(devices_of(x.broadcast_to(Tensor::scalar(5.0f), variable)) == all);
  const Tensor here = x.broadcast_to(Tensor::scalar(5.0f), "CPU:0");
  REQUIRE(here.device() == Device());
  const Tensor nothing = Tensor::zeros({0, 3});
  REQUIRE(x.broadcast_to(nothing)[0].shape() == Shape(0, 3));
}

TEST_CASE("broadcast_to returns a host scalar unchanged, so that it takes a variable's dtype later",
          "[strategy][reduce_to]") {
  Replicas strategy(2);
  auto& x = strategy.extended();
  STATIC_REQUIRE(std::is_same_v<decltype(x.broadcast_to(5)), int>);
  REQUIRE(x.broadcast_to(5) == 5);
  REQUIRE(x.broadcast_to(2.5f, "CPU:0") == 2.5f);
}

TEST_CASE("sparse-reduce: rows are concatenated, and averaged over replicas", "[strategy][reduce_to]") {
  Replicas strategy(2);
  const auto rows = rows_of_a_table();
  const std::vector<float> total{0, 0, 4, 6, 0, 0, 5, 6, 0, 0}, average{0, 0, 2, 3, 0, 0, 2.5f, 3, 0, 0};
  REQUIRE(strategy.reduce(sum, rows).to_dense().to_vector<float>() == total);
  REQUIRE(strategy.reduce(mean, rows).to_dense().to_vector<float>() == average);
  REQUIRE(strategy.reduce(sum, rows).indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 3});

  auto& x = strategy.extended();
  const auto everywhere = x.reduce_to(sum, rows, x.broadcast_to(Tensor::scalar(1)));
  REQUIRE(everywhere.size() == 2);
  REQUIRE(everywhere[1].values.device() == TestBackend::device(1));
  REQUIRE(everywhere[1].to_dense().to_vector<float>() == total);

  // In a batch they keep their place and come back dense.
  const auto dense = scalars<float>({1, 2});
  const auto batch = x.batch_reduce_to(mean, {{dense, dense}, {rows, dense}, {dense, "CPU:0"}});
  REQUIRE(batch[0][1].item<float>() == 1.5f);
  REQUIRE(batch[1].size() == 2);
  REQUIRE(batch[1][1].to_vector<float>() == average);
  REQUIRE(batch[2][0].item<float>() == 1.5f);
}

TEST_CASE("sparse rows that cannot be reduced are refused", "[strategy][reduce_to]") {
  Replicas strategy(2);
  const auto rows = rows_of_a_table();
  REQUIRE_THROWS_MATCHES(strategy.reduce(max, rows), InvalidArgument,
                         says("IndexedSlices", "max", "summed or averaged"));
  IndexedSlices other = rows[1];
  other.dense_shape = Shape(6, 2);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, PerReplica(std::vector{rows[0], other})), InvalidArgument,
                         says("replica 1", "[6, 2]", "replica 0", "[5, 2]"));
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, rows[0]), InvalidArgument, says("plain"));
  REQUIRE(strategy.reduce(mean, rows[0]).to_dense().to_vector<float>()[2] == 1.0f);
  IndexedSlices bad = rows[1];
  bad.indices = Tensor::from<std::int64_t>({1, 5}, {2}, bad.values.device());
  REQUIRE_THROWS_MATCHES(bad.to_dense(), InvalidArgument, says("index 5", "[5, 2]"));
  bad.indices = Tensor::from<int>({1, 5}, {2}, bad.values.device());
  REQUIRE_THROWS_MATCHES(bad.to_dense(), InvalidArgument, says("indices", "int32", "int64"));
  bad.indices = Tensor::from<std::int64_t>({1}, {1}, bad.values.device());
  REQUIRE_THROWS_MATCHES(bad.to_dense(), InvalidArgument, says("values [2, 2]", "1 indices"));
}

}  // namespace lockstep::test

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::unique_ptr<ls::CrossDeviceOps> make(const std::string& name) {
  if (name == "ReductionToOneDevice") return std::make_unique<ls::ReductionToOneDevice>();
  if (name == "ReductionToOneDevice on CPU:9") return std::make_unique<ls::ReductionToOneDevice>("CPU:9");
  if (name == "HierarchicalCopyAllReduce") return std::make_unique<ls::HierarchicalCopyAllReduce>();
  if (name == "NcclAllReduce unpacked") return std::make_unique<ls::NcclAllReduce>(0);
  if (name == "NcclAllReduce in 3 packs") return std::make_unique<ls::NcclAllReduce>(3);
  return std::make_unique<ls::NcclAllReduce>();
}

std::string any_choice() {
  return GENERATE(as<std::string>(), "ReductionToOneDevice", "ReductionToOneDevice on CPU:9",
                  "HierarchicalCopyAllReduce", "NcclAllReduce", "NcclAllReduce unpacked",
                  "NcclAllReduce in 3 packs");
}

std::vector<ls::Device> host_replicas(int n) {
  std::vector<ls::Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(ls::DeviceKind::cpu, i);
  return devices;
}

/// Replica i's contribution: rows of i + 1, i + 2, …
ls::Tensor contribution(int replica, const ls::Shape& shape, ls::DType dtype) {
  return ls::Tensor::arange<std::int64_t>(replica + 1, replica + 1 + shape.size()).reshape(shape).cast(dtype);
}

double expected(ls::ReduceOp op, int n, std::int64_t element) {
  double result =
      op == ls::ReduceOp::product || op == ls::ReduceOp::min ? static_cast<double>(element + 1) : 0;
  if (op == ls::ReduceOp::min) return result;
  if (op == ls::ReduceOp::max) return static_cast<double>(element + n);
  for (int i = op == ls::ReduceOp::product ? 1 : 0; i < n; ++i) {
    const auto value = static_cast<double>(element + i + 1);
    result = op == ls::ReduceOp::product ? result * value : result + value;
  }
  return op == ls::ReduceOp::mean ? result / n : result;
}

void check(const ls::Tensor& result, ls::ReduceOp op, int n, const ls::Shape& shape, ls::DType dtype) {
  REQUIRE(result.shape() == shape);
  REQUIRE(result.dtype() == ls::reduced_dtype(op, dtype));
  const auto values = result.cast(ls::DType::f64).to_vector<double>();
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    // Small whole numbers, exact in every dtype used, but for a mean's division, rounded to the result's
    // dtype.
    const auto wanted =
        ls::Tensor::scalar(expected(op, n, i)).cast(result.dtype()).cast(ls::DType::f64).item<double>();
    REQUIRE(values[static_cast<std::size_t>(i)] == wanted);
  }
}

}  // namespace

TEST_CASE("P08 every explicit way to combine values gives the same answers through every entry point",
          "[collectives][host]") {
  const std::string choice = any_choice();
  const int n = GENERATE(1, 2, 3, 4, 7);
  CAPTURE(choice, n);
  ls::MirroredStrategy strategy(host_replicas(n), make(choice));
  for (const auto op : {ls::ReduceOp::sum, ls::ReduceOp::mean, ls::ReduceOp::min, ls::ReduceOp::max}) {
    for (const auto dtype : {ls::DType::f32, ls::DType::f16, ls::DType::i32, ls::DType::f64}) {
      CAPTURE(op, dtype);
      const ls::Shape matrix{3, 5}, empty{0, 4}, vector{7};
      const auto values = strategy.run([&](ls::ReplicaContext& ctx) {
        const int id = ctx.replica_id_in_sync_group();
        return std::tuple{contribution(id, matrix, dtype), contribution(id, empty, dtype),
                          contribution(id, vector, dtype)};
      });
      const auto& [first, none, last] = values;
      check(strategy.reduce(op, first), op, n, matrix, dtype);
      const auto batch =
          strategy.extended().batch_reduce_to(op, {{first, first}, {none, "CPU:0"}, {last, "CPU:0"}});
      REQUIRE(batch[0].size() == n);
      for (const ls::Tensor& component : batch[0]) check(component, op, n, matrix, dtype);
      check(batch[1], op, n, empty, dtype);
      check(batch[2], op, n, vector, dtype);
      const auto inside = strategy.run(
          [&](ls::ReplicaContext& ctx, const auto& mine) { return ctx.all_reduce(op, mine); }, values);
      for (int i = 0; i < n; ++i) {
        check(std::get<0>(inside)[i], op, n, matrix, dtype);
        check(std::get<1>(inside)[i], op, n, empty, dtype);
        check(std::get<2>(inside)[i], op, n, vector, dtype);
      }
      check(first[0], ls::ReduceOp::sum, 1, matrix, dtype);  // P30: sources stay
    }
  }
}

TEST_CASE("P08 the product too", "[collectives][host]") {
  const std::string choice = any_choice();
  ls::MirroredStrategy strategy(host_replicas(3), make(choice));
  const auto values = strategy.run([](ls::ReplicaContext& ctx) {
    return contribution(ctx.replica_id_in_sync_group(), ls::Shape{4}, ls::DType::i64);
  });
  check(strategy.reduce(ls::ReduceOp::product, values), ls::ReduceOp::product, 3, ls::Shape{4},
        ls::DType::i64);
}

TEST_CASE("P05 no explicit way to combine values lets a half-precision mean overflow",
          "[collectives][host]") {
  ls::MirroredStrategy strategy(host_replicas(4), make(any_choice()));
  const auto values = strategy.run([] { return ls::Tensor::full({3}, ls::f16(40000.0f)); });
  for (ls::f16 value : strategy.reduce(ls::ReduceOp::mean, values).to_vector<ls::f16>())
    REQUIRE(float(value) == 40000.0f);
}

TEST_CASE("P23 explicit ways to combine values refuse replicas that disagree", "[collectives][host]") {
  ls::MirroredStrategy strategy(host_replicas(2), make(any_choice()));
  REQUIRE_THROWS_MATCHES(strategy.run([](ls::ReplicaContext& ctx) {
    return ctx.all_reduce(ls::ReduceOp::sum, ls::Tensor::zeros({4 - ctx.replica_id_in_sync_group()}));
  }),
                         ls::CollectiveMismatch,
                         MessageMatches(ContainsSubstring("[3]") && ContainsSubstring("[4]")));
}

namespace {

/// Somebody's way to combine values, whose results are spoiled.
struct Spoiled : ls::ReductionToOneDevice {
  using Results = std::vector<std::vector<ls::Tensor>>;
  explicit Spoiled(std::function<void(Results&)> spoil) : spoil_(std::move(spoil)) {}
  std::string_view name() const noexcept override { return "Spoiled"; }
  Results reduce(ls::ReduceOp op, const Results& inputs, const std::vector<ls::Device>& devices,
                 int root) override {
    Results results = ReductionToOneDevice::reduce(op, inputs, devices, root);
    spoil_(results);
    return results;
  }
  std::function<void(Results&)> spoil_;
};

}  // namespace

TEST_CASE("results of somebody's way to combine values are checked", "[collectives][host]") {
  const auto refused = [](std::function<void(Spoiled::Results&)> spoil, const std::string& reason) {
    ls::MirroredStrategy strategy(host_replicas(2), std::make_unique<Spoiled>(std::move(spoil)));
    const auto inside = [](ls::ReplicaContext& ctx) {
      return ctx.all_reduce(ls::ReduceOp::sum, contribution(ctx.local_index(), {2}, ls::DType::f32));
    };
    const auto values = strategy.run([](ls::ReplicaContext& ctx) {
      return contribution(ctx.replica_id_in_sync_group(), {2}, ls::DType::f32);
    });
    const auto message = MessageMatches(ContainsSubstring("Spoiled::reduce(sum) returned " + reason));
    REQUIRE_THROWS_MATCHES(strategy.run(inside), ls::InvalidArgument, message);
    REQUIRE_THROWS_MATCHES(strategy.extended().reduce_to(ls::ReduceOp::sum, values, values),
                           ls::InvalidArgument, message);
    REQUIRE(strategy.run([] { return 1; }).size() == 2);  // it can be used again
  };
  refused([](auto& results) { results.pop_back(); }, "1 lists of results for 2 ranks");
  refused([](auto& results) { results[1].clear(); }, "0 results for rank 1, which gave 1 tensors");
  refused([](auto& results) { results[1].push_back(results[1][0]); }, "2 results for rank 1");
  refused([](auto& results) { results[1][0] = ls::Tensor(); },
          "an empty Tensor as tensor 0 of rank 1, where [2] float32 on CPU:1 is due");
  refused(
      [](auto& results) {
        results[1][0] = results[1][0].reshape({2, 1});
      },
      "[2, 1] float32 on CPU:1 as tensor 0 of rank 1, where [2] float32");
  refused([](auto& results) { results[1][0] = results[1][0].cast(ls::DType::f64); },
          "[2] float64 on CPU:1 as");
  refused([](auto& results) { results[1][0] = results[0][0]; }, "[2] float32 on CPU:0 as tensor 0 of rank 1");
}

TEST_CASE("explicit ways to combine values name themselves and check their options", "[collectives][host]") {
  REQUIRE(ls::ReductionToOneDevice().name() == "ReductionToOneDevice");
  REQUIRE(ls::HierarchicalCopyAllReduce().name() == "HierarchicalCopyAllReduce");
  REQUIRE(ls::NcclAllReduce().name() == "NcclAllReduce");
  REQUIRE_THROWS_MATCHES(ls::NcclAllReduce(-1), ls::InvalidArgument,
                         MessageMatches(ContainsSubstring("num_packs is -1")));
  REQUIRE_THROWS_MATCHES(ls::MirroredStrategy(host_replicas(2), std::unique_ptr<ls::CrossDeviceOps>()),
                         ls::InvalidArgument, MessageMatches(ContainsSubstring("cross_device_ops is null")));
}

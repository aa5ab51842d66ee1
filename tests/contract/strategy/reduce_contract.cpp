#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Strategy::reduce without axes.
namespace lockstep::test {

using enum ReduceOp;

TEST_CASE("reduce-sum-scalars: the sum of values from a function, in scope and out of scope", "[strategy]") {
  Replicas strategy(2);
  const auto value = strategy.distribute_values_from_function([](ValueContext) { return 1.0f; });
  REQUIRE(strategy.reduce(sum, value).item<float>() == 2.0f);
  const auto scope = strategy.scope();
  REQUIRE(strategy.reduce(sum, value).item<float>() == 2.0f);
}

TEST_CASE("reduce-sum-replica-ids: ids that run returns", "[strategy]") {
  Replicas strategy(4);
  const auto ids = strategy.run([](ReplicaContext& ctx) { return ctx.replica_id_in_sync_group(); });
  REQUIRE(strategy.reduce(sum, ids).item<int>() == 6);
}

TEST_CASE("reduce-vector-across: vectors add up element by element", "[strategy]") {
  Replicas strategy(2);
  const auto value = vectors<float>({{0, 1, 2, 3}, {4, 5, 6, 7}});
  REQUIRE(strategy.reduce(sum, value).to_vector<float>() == std::vector<float>{4, 6, 8, 10});
  REQUIRE(strategy.reduce(sum, value, 0).item<float>() == 28.0f);
}

TEST_CASE("reduce-plain-mean: a plain tensor is its own mean", "[strategy]") {
  Replicas strategy(2);
  REQUIRE(strategy.reduce(mean, Tensor::scalar(5.0f)).item<float>() == 5.0f);
}

TEST_CASE("reduce-mirrored-mean: a mirrored value is its own mean", "[strategy]") {
  Replicas strategy(2);
  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(3.0f));
  REQUIRE(strategy.reduce(mean, mirrored).item<float>() == 3.0f);
}

TEST_CASE("reduce-mirrored-sum: the sum of a mirrored value is refused", "[strategy]") {
  Replicas strategy(2);
  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(3.0f));
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, mirrored), InvalidArgument,
                         says("reduce(sum)", "mirrored", "2 replicas", "use mean"));
}

TEST_CASE("reduce-op-names: operators are parsed without regard to case", "[strategy]") {
  Replicas strategy(1);
  for (const char* text : {"mean", "MEAN", "sum", "SUM"})
    REQUIRE(strategy.reduce(parse_reduce_op(text), Tensor::scalar(1.0f)).item<float>() == 1.0f);
  REQUIRE_THROWS_MATCHES(parse_reduce_op("average"), InvalidArgument, says("average", "mean"));
}

TEST_CASE("reduce leaves its result on the current device", "[strategy]") {
  Replicas strategy(2);
  const auto value = scalars<float>({1, 2});
  REQUIRE(strategy.reduce(sum, value).device() == Device());
  REQUIRE(strategy.reduce(mean, Tensor::scalar(1.0f, TestBackend::device(1))).device() == Device());
  const DeviceScope here(TestBackend::device(1));
  REQUIRE(strategy.reduce(sum, value).device() == TestBackend::device(1));
}

TEST_CASE("reduce refuses components of different shapes or dtypes and names the replicas", "[strategy]") {
  Replicas strategy(2);
  for (const ReduceOp op : {sum, mean, min, max, product}) {
    REQUIRE_THROWS_MATCHES(strategy.reduce(op, vectors<float>({{1, 2, 3, 4}, {1, 2, 3}})), InvalidArgument,
                           says("reduce", "replica 1", "[3] float32", "replica 0", "[4] float32"));
  }
  const PerReplica mixed(std::vector{Tensor::scalar(1.0f), Tensor::scalar(1)});
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, mixed), InvalidArgument,
                         says("replica 1", "int32", "replica 0", "float32"));
}

TEST_CASE("reduce refuses a plain value summed over several replicas", "[strategy]") {
  Replicas strategy(2);
  for (const ReduceOp op : {sum, min, max, product}) {
    REQUIRE_THROWS_MATCHES(strategy.reduce(op, Tensor::scalar(5.0f)), InvalidArgument,
                           says("plain value", "2 replicas", "Pass a per-replica value"));
  }
  // The type decides, not the value.
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, 0), InvalidArgument, says("plain value"));
  REQUIRE(strategy.reduce(mean, 3.0f).item<float>() == 3.0f);
}

TEST_CASE("reduce treats one object from all replicas as the plain value it is", "[strategy]") {
  Replicas strategy(2);
  const Tensor captured = Tensor::scalar(4.0f);
  const auto same = strategy.run([&] { return captured; });
  REQUIRE(same.is_same_object());
  REQUIRE(strategy.reduce(mean, same).item<float>() == 4.0f);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, same), InvalidArgument, says("plain value"));
  // Host scalars have no identity: each replica contributes its own.
  REQUIRE(strategy.reduce(sum, strategy.run([] { return 4.0f; })).item<float>() == 8.0f);
}

TEST_CASE("reduce of a mirrored variable is its mean, and no sum", "[strategy]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(3.0f), {.name = "v"});
  REQUIRE(strategy.reduce(mean, variable).item<float>() == 3.0f);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, variable), InvalidArgument, says("mirrored"));
}

TEST_CASE("reduce refuses a value with another number of components", "[strategy]") {
  Replicas strategy(3);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, scalars<float>({1, 2})), InvalidArgument,
                         says("2 components", "3 local replicas"));
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, vectors<float>({{1}, {2}}), 0), InvalidArgument,
                         says("2 components", "3 local replicas"));
  const Mirrored<Tensor> two(std::vector{Tensor::scalar(1.0f), Tensor::scalar(1.0f)});
  REQUIRE_THROWS_MATCHES(strategy.reduce(mean, two), InvalidArgument,
                         says("2 components", "3 local replicas"));
  OneDeviceStrategy one(TestBackend::device());
  REQUIRE_THROWS_MATCHES(one.reduce(sum, scalars<float>({1, 2})), InvalidArgument,
                         says("2 components", "1 local replicas"));
  REQUIRE_THROWS_MATCHES(get_strategy().reduce(sum, scalars<float>({1, 2})), InvalidArgument,
                         says("2 components"));
}

TEST_CASE("the sum of a mirrored value is refused for one replica as for several", "[strategy]") {
  const int n = GENERATE(1, 2);
  Replicas strategy(n);
  const auto undefined = says("a mirrored value", "undefined");
  const Variable variable = strategy.make_variable(Tensor::scalar(3.0f));
  REQUIRE_THROWS_MATCHES(strategy.reduce(ReduceOp::sum, variable), InvalidArgument, undefined);
  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(3.0f));
  REQUIRE_THROWS_MATCHES(strategy.reduce(ReduceOp::sum, mirrored), InvalidArgument, undefined);
  REQUIRE(strategy.reduce(ReduceOp::mean, variable).item<float>() == 3.0f);
  REQUIRE(strategy.reduce(ReduceOp::mean, mirrored).item<float>() == 3.0f);
}

TEST_CASE("reduce of OneDevice and of the default strategy is the value unchanged", "[strategy]") {
  OneDeviceStrategy one(TestBackend::device());
  for (const ReduceOp op : {sum, mean, min, max, product}) {
    REQUIRE(one.reduce(op, one.run([] { return Tensor::scalar(3); })).item<int>() == 3);
    REQUIRE(get_strategy().reduce(op, Tensor::scalar(3)).item<int>() == 3);
  }
}

TEST_CASE("reduce refuses booleans and names them", "[strategy]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, scalars<bool>({true, false})), InvalidArgument,
                         says("sum", "bool"));
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, strategy.run([] { return true; })), InvalidArgument,
                         says("bool"));
}

TEST_CASE("reduce maps a nest leaf by leaf", "[strategy]") {
  Replicas strategy(2);
  const auto results = strategy.run([](ReplicaContext& ctx) {
    const int id = ctx.replica_id_in_sync_group();
    return std::tuple{id, std::vector<Tensor>{Tensor::scalar(id + 0.5f), Tensor::scalar(10 * id)},
                      std::map<std::string, Tensor>{{"a", Tensor::from<float>({1, 2}, Shape(2))}}};
  });
  const auto [id, list, map] = strategy.reduce(sum, results);
  REQUIRE(id.item<int>() == 1);
  REQUIRE(list.size() == 2);
  REQUIRE(list[0].item<float>() == 2.0f);
  REQUIRE(list[1].item<int>() == 10);
  REQUIRE(map.at("a").to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("reduce of a tensor that is empty-handed is refused", "[strategy]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, PerReplica(std::vector{Tensor(), Tensor()})), ContextError,
                         says("empty"));
}

TEST_CASE("P01 the mean along the batch divides by the rows that are there", "[strategy]") {
  Replicas strategy(2);
  const auto rows = vectors<float>({{0, 1, 2, 3}, {4, 5}});
  REQUIRE(strategy.reduce(mean, rows, 0).item<float>() == 2.5f);
  REQUIRE(strategy.reduce(sum, rows, 0).item<float>() == 15.0f);
  // Weighted by something else: two sums, one division.
  const auto sums = scalars<float>({6, 5});
  const auto valid = scalars<float>({3, 1});
  REQUIRE((strategy.reduce(sum, sums) / strategy.reduce(sum, valid)).item<float>() == 2.75f);
}

TEST_CASE("P02 the mean without an axis divides by the number of replicas", "[strategy]") {
  Replicas strategy(2);
  const auto value = scalars<float>({0.75f, 2.75f});
  REQUIRE(strategy.reduce(sum, value).item<float>() == 3.5f);
  REQUIRE(strategy.reduce(mean, value).item<float>() == 1.75f);
}

TEST_CASE("P04 the mean of integers is a true division by the number of replicas", "[strategy]") {
  Replicas two(2);
  const Tensor halves = two.reduce(mean, vectors<int>({{10, 20}, {20, 40}}));
  REQUIRE(halves.dtype() == DType::f64);
  REQUIRE(halves.to_vector<double>() == std::vector<double>{15, 30});
  REQUIRE(two.reduce(mean, scalars<int>({3, 4})).item<double>() == 3.5);
  REQUIRE(two.reduce(mean, vectors<int>({{6, 6, 6}, {6, 6, 6}})).to_vector<double>() ==
          std::vector<double>{6, 6, 6});
  Replicas four(4);
  REQUIRE(four.reduce(mean, scalars<float>({1, 1, 1, 1})).item<float>() == 1.0f);
}

TEST_CASE("P05 the mean of large halves does not overflow", "[strategy]") {
  Replicas strategy(4);
  const f16 large(40000.0f);
  const auto value = scalars<f16>({large, large, large, large});
  REQUIRE(static_cast<float>(strategy.reduce(mean, value).item<f16>()) == 40000.0f);
  REQUIRE(std::isinf(static_cast<float>(strategy.reduce(sum, value).item<f16>())));
  const auto rows = vectors<f16>({{large, large}, {large}, {}, {large}});
  REQUIRE(static_cast<float>(strategy.reduce(mean, rows, 0).item<f16>()) == 40000.0f);
}

TEST_CASE("P07 narrow integers wrap in a sum and never in a mean", "[strategy]") {
  Replicas strategy(2);
  const auto value = scalars<std::int8_t>({120, 100});
  REQUIRE(strategy.reduce(sum, value).item<std::int8_t>() == -36);
  const Tensor average = strategy.reduce(mean, value);
  REQUIRE(average.dtype() == DType::f32);
  REQUIRE(average.item<float>() == 110.0f);
}

TEST_CASE("P08 reduce gives each operator its own result", "[strategy]") {
  const auto [op, expected] = GENERATE(
      table<ReduceOp, float>({{sum, 7.0f}, {mean, 3.5f}, {min, 2.0f}, {max, 5.0f}, {product, 10.0f}}));
  Replicas strategy(2);
  const auto value = scalars<float>({2, 5});
  CAPTURE(op);
  REQUIRE(strategy.reduce(op, value).item<float>() == expected);
  const auto row = vectors<float>({{2}, {5}});
  REQUIRE(strategy.reduce(op, row, 0).item<float>() == expected);
}

TEST_CASE("P16 one replica reduces to the value itself, in the dtype that many would give", "[strategy]") {
  Replicas strategy(1);
  const ReduceOp op = GENERATE(sum, mean, min, max, product);
  const auto check = [&](const auto& value) {
    const Tensor result = strategy.reduce(op, value);
    REQUIRE(result.dtype() == reduced_dtype(op, DType::i32));
    REQUIRE(result.cast(DType::f64).item<double>() == 7.0);
  };
  check(strategy.distribute_values_from_function([](ValueContext) { return Tensor::scalar(7); }));
  check(strategy.run([] { return Tensor::scalar(7); }));
  check(strategy.run([] { return 7; }));
  REQUIRE(strategy.reduce(op, Tensor::scalar(7)).item<int>() == 7);  // plain: unchanged
  const auto row = vectors<float>({{1, 2, 3, 2}});
  REQUIRE(strategy.reduce(sum, row, 0).item<float>() == 8.0f);
  REQUIRE(strategy.reduce(mean, row, 0).item<float>() == 2.0f);
}

TEST_CASE("reduce keeps the dtype of its input, but for means of integers", "[strategy]") {
  Replicas strategy(2);
  for (const DType dtype : kAllDTypes) {
    if (is_boolean(dtype)) continue;
    CAPTURE(dtype);
    const PerReplica value(std::vector{Tensor::ones({2}, dtype, TestBackend::device(0)),
                                       Tensor::ones({2}, dtype, TestBackend::device(1))});
    for (const Axes& axes : {Axes(), Axes(0)}) {
      REQUIRE(strategy.reduce(sum, value, axes).dtype() == dtype);
      REQUIRE(strategy.reduce(mean, value, axes).dtype() == reduced_dtype(mean, dtype));
      REQUIRE(strategy.reduce(mean, value, axes).cast(DType::f64).to_vector<double>()[0] == 1.0);
    }
  }
}

}  // namespace lockstep::test

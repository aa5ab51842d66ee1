#include <concepts>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

using namespace lockstep;

namespace {

/// Whether f(T) of a temporary is an object, and f of a named T a reference to what it has.
template <class T, class F>
constexpr bool copies(F f) {
  return std::is_object_v<decltype(f(std::declval<T>()))> &&
         std::is_object_v<decltype(f(std::declval<const T>()))> &&
         std::is_lvalue_reference_v<decltype(f(std::declval<const T&>()))>;
}

template <class T, class F>
constexpr bool refuses(F) {
  return !std::invocable<F, T> && !std::invocable<F, const T> && std::invocable<F, const T&>;
}

}  // namespace

#define CALL(member)                                              \
  [](auto&& x) -> decltype(std::forward<decltype(x)>(x).member) { \
    return std::forward<decltype(x)>(x).member;                   \
  }

TEST_CASE("what refers into a temporary is a copy", "[host]") {
  STATIC_REQUIRE(copies<Tensor>(CALL(shape())));
  STATIC_REQUIRE(copies<Tensor>(CALL(device())));
  STATIC_REQUIRE(copies<Tensor>(CALL(view())));
  STATIC_REQUIRE(copies<Device>(CALL(job())));
  STATIC_REQUIRE(copies<PerReplica<Tensor>>(CALL(operator[](0))));
  STATIC_REQUIRE(copies<Mirrored<Tensor>>(CALL(operator[](0))));
  STATIC_REQUIRE(copies<ShardedTensor>(CALL(shape())));
  STATIC_REQUIRE(copies<ShardedTensor>(CALL(dims())));
  STATIC_REQUIRE(copies<ShardedTensor>(CALL(shard(0))));
  STATIC_REQUIRE(copies<ReduceValue>(CALL(tensors())));
  STATIC_REQUIRE(copies<ReduceValue>(CALL(slices())));
  STATIC_REQUIRE(copies<Destination>(CALL(devices())));
  STATIC_REQUIRE(copies<optim::Gradient>(CALL(value())));
  STATIC_REQUIRE(copies<MultiStepContext>(CALL(last_step_outputs())));
  STATIC_REQUIRE(copies<MultiStepContext>(CALL(non_tensor_outputs())));
  STATIC_REQUIRE(copies<Communicator>(CALL(devices())));
  STATIC_REQUIRE(copies<metrics::Mean>(CALL(name())));
  STATIC_REQUIRE(copies<Error>(CALL(context())));
  STATIC_REQUIRE(std::is_object_v<decltype(std::declval<const Variable&>().shape())>);
  STATIC_REQUIRE(std::is_object_v<decltype(std::declval<const Variable&>().name())>);
  STATIC_REQUIRE(std::is_object_v<decltype(std::declval<StrategyExtended&>().worker_devices())>);
  STATIC_REQUIRE(std::is_object_v<decltype(std::declval<StrategyExtended&>().parameter_devices())>);
  STATIC_REQUIRE(std::is_object_v<decltype(std::declval<Strategy&>().cluster_resolver())>);
}

TEST_CASE("views of a temporary's memory do not compile", "[host]") {
  STATIC_REQUIRE(refuses<Shape>(CALL(extents())));
  STATIC_REQUIRE(refuses<Axes>(CALL(values())));
  STATIC_REQUIRE(refuses<Buffer>(CALL(host_bytes())));
  STATIC_REQUIRE(refuses<PinnedBuffer>(CALL(bytes())));
}

TEST_CASE("writes in place to a temporary give a Tensor of their own", "[host]") {
  STATIC_REQUIRE(std::same_as<decltype(Tensor().add_(Tensor())), Tensor>);
  STATIC_REQUIRE(std::same_as<decltype(Tensor().fill_(1)), Tensor>);
  STATIC_REQUIRE(std::same_as<decltype(std::declval<Tensor&>().add_(1)), Tensor&>);
}

TEST_CASE("loops over what temporaries have see it", "[host]") {
  const Tensor x = Tensor::ones({2, 3});
  std::vector<std::int64_t> extents;
  for (const std::int64_t extent : (x + x).shape()) extents.push_back(extent);
  for (const std::int64_t extent : (x + x).add_(1).shape()) extents.push_back(extent);
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  for (const std::int64_t extent : strategy.run([&] { return x * 2; })[1].shape()) extents.push_back(extent);
  for (const std::int64_t extent : Variable(x).shape()) extents.push_back(extent);
  CHECK(extents == std::vector<std::int64_t>{2, 3, 2, 3, 2, 3, 2, 3});
  std::vector<Device> devices;
  for (const Device& device : MirroredStrategy({"CPU:0", "CPU:1"}).extended().worker_devices())
    devices.push_back(device);
  CHECK(devices == std::vector<Device>{"CPU:0", "CPU:1"});
}

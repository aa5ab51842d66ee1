#include <functional>
#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "cuda/graphs/captured_strategy.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

using Values = std::vector<float>;

}  // namespace

TEST_CASE_METHOD(CapturedStrategy, "a write that would move a variable is refused in a capture", "[cuda]") {
  Variable count(Tensor::zeros({4}), {.name = "count"});
  std::optional<Tensor> held = count.value();
  stream.synchronize();
  Capture capture({stream});
  REQUIRE_THROWS_MATCHES(count.assign_add(1), Unsupported,
                         says("Writing a variable on " + device.to_string(), "value() is held", "clone()"));
  held.reset();
  count.assign_add(1);
  capture.end();
  for (int i = 0; i < 3; ++i) capture.launch();
  REQUIRE(count.value().to_vector<float>() == std::vector<float>(4, 3));
}

TEST_CASE_METHOD(CapturedStrategy, "an update in a capture stays in the variable's memory", "[cuda]") {
  Variable count(Tensor::zeros({4}), {.name = "count"});
  const auto add_one = [](Tensor& value) { value.add_(1); };
  std::optional<Tensor> held = count.value();
  stream.synchronize();
  Capture capture({stream});
  REQUIRE_THROWS_MATCHES(strategy.extended().update(count, add_one), Unsupported, says("value() is held"));
  held.reset();
  strategy.extended().update(count, add_one);
  capture.end();
  for (int i = 0; i < 3; ++i) capture.launch();
  REQUIRE(count.value().to_vector<float>() == std::vector<float>(4, 3));
}

TEST_CASE_METHOD(CapturedStrategy, "a variable stays where the launches of a graph find it", "[cuda]") {
  Variable count(Tensor::zeros({4}), {.name = "count"});
  Tensor seen = Tensor::zeros({4}, DType::f32, device);
  stream.synchronize();
  Capture capture({stream});
  const bool reads = GENERATE(true, false);
  if (reads) seen.copy_(count.value());
  count.assign_add(1);
  if (!reads) seen.copy_(count.value());
  capture.end();

  const Tensor before = count.value();
  count.assign(5);
  capture.launch();
  REQUIRE(seen.to_vector<float>() == Values(4, reads ? 5 : 6));
  REQUIRE(count.value().to_vector<float>() == Values(4, 6));
  REQUIRE(before.to_vector<float>() == Values(4, 0));
  const Tensor held = count.value();
  strategy.extended().update(count, [](Tensor& value) { value.mul_(2); });
  capture.launch();
  REQUIRE(seen.to_vector<float>() == Values(4, reads ? 12 : 13));
  REQUIRE(count.value().to_vector<float>() == Values(4, 13));
  REQUIRE(held.to_vector<float>() == Values(4, 6));
}

TEST_CASE_METHOD(CapturedStrategy, "a write that would move a graph's variable is refused", "[cuda]") {
  Variable count(Tensor::ones({4}), {.name = "count"});
  Tensor seen = Tensor::zeros({4}, DType::f32, device);
  const Tensor row = Tensor::full({1}, 5.0f, DType::f32, device);
  const Tensor index = Tensor::from<std::int64_t>({2}, {1}, device);
  optim::SGD sgd({.learning_rate = 1});
  sgd.build({count});
  const std::function<void()> writes[] = {
      [&] { count.assign(5); }, [&] { count.assign_sub(Tensor::ones({4}, DType::f32, device)); },
      [&] {
        count.scatter_update({row, index, Shape{4}});
      },
      [&] { strategy.extended().update(count, [](Tensor& value) { value.fill_(5); }); },
      [&] {
        sgd.apply_gradients({{Tensor::ones({4}, DType::f32, device), count}});
      }};
  const auto& write = writes[GENERATE(0, 1, 2, 3, 4)];
  std::optional<Tensor> held = count.value();
  stream.synchronize();
  Capture capture({stream});
  seen.copy_(count.value());
  capture.end();

  REQUIRE_THROWS_MATCHES(
      write(), Unsupported,
      says("Writing a variable on " + device.to_string(), "value() is held", "graph", "clone()"));
  REQUIRE(count.value().to_vector<float>() == Values(4, 1));
  held.reset();
  write();
  const Values written = count.value().to_vector<float>();
  REQUIRE(written != Values(4, 1));
  capture.launch();
  REQUIRE(seen.to_vector<float>() == written);
}

TEST_CASE_METHOD(CapturedStrategy, "a tensor of a graph's variable that its capture has kept is refused, too",
                 "[cuda]") {
  Variable count(Tensor::ones({4}), {.name = "count"});
  stream.synchronize();
  Capture capture({stream});
  Tensor kept = count.value();
  capture.end();
  REQUIRE_THROWS_MATCHES(count.assign(5), Unsupported, says("value() is held"));
  kept = kept.clone();
  count.assign(5);
  REQUIRE(kept.to_vector<float>() == Values(4, 1));
}

TEST_CASE("the components of a graph's variable stay, all of them", "[cuda]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  const Stream first(devices[0]), second(devices[1]);
  const StreamScope here(first), there(second);
  MirroredStrategy strategy(devices);
  const auto in_strategy = strategy.scope();
  Variable weights(Tensor::ones({4}));
  Tensor seen = Tensor::zeros({4}, DType::f32, devices[1]);
  first.synchronize();
  second.synchronize();
  Capture capture({first, second});
  {
    const DeviceScope on_second(devices[1]);
    seen.copy_(weights.value());
  }
  capture.end();
  const PerReplica<Tensor> before = strategy.run([&] { return weights.value(); });
  weights.assign(3);
  first.synchronize();
  second.synchronize();
  capture.launch();
  second.synchronize();
  REQUIRE(seen.to_vector<float>() == Values(4, 3));
  REQUIRE(before[1].to_vector<float>() == Values(4, 1));
}

TEST_CASE("a variable that another GPU's graph reads stays where it finds it", "[cuda]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  const Stream owner(devices[0]), reader(devices[1]);
  const StreamScope here(owner), there(reader);
  OneDeviceStrategy strategy(devices[0]);
  const auto in_strategy = strategy.scope();
  Variable weights(Tensor::ones({4}));
  Tensor seen = Tensor::zeros({4}, DType::f32, devices[1]);
  owner.synchronize();
  reader.synchronize();
  Capture capture({reader});
  seen.copy_(weights.value());
  capture.end();

  const Tensor held = weights.value();
  weights.assign(5);
  owner.synchronize();
  capture.launch();
  reader.synchronize();
  REQUIRE(seen.to_vector<float>() == Values(4, 5));
  REQUIRE(held.to_vector<float>() == Values(4, 1));
}

TEST_CASE("a graph keeps the value of the capture of a variable on a CPU", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  OneDeviceStrategy strategy("CPU:0");
  const auto in_strategy = strategy.scope();
  Variable count(Tensor::ones({4}));
  Tensor seen = Tensor::zeros({4}, DType::f32, device);
  stream.synchronize();
  Capture capture({stream});
  seen.copy_(count.value());
  capture.end();
  count.assign(5);
  capture.launch();
  REQUIRE(seen.to_vector<float>() == Values(4, 1));
}

}  // namespace lockstep::test

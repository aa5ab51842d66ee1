#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "capture.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("a step of an optimizer is refused in a capture, which would repeat its number", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  OneDeviceStrategy strategy(device);
  const auto in_strategy = strategy.scope();
  Variable weights(Tensor::ones({4}), {.name = "weights"});
  const Tensor gradient = Tensor::ones({4}, DType::f32, device);
  optim::Adam adam({.learning_rate = 0.5});
  adam.apply_gradients({{gradient, weights}});
  const std::vector<float> after_one = weights.value().to_vector<float>();

  Capture capture({stream});
  REQUIRE_THROWS_MATCHES(adam.apply_gradients({{gradient, weights}}), Unsupported,
                         says("apply_gradients of Adam", "'weights'", device.to_string(), "captured"));
  capture.end();
  capture.launch();
  REQUIRE(weights.value().to_vector<float>() == after_one);
  REQUIRE(adam.iterations().value().item<std::int64_t>() == 1);
}

TEST_CASE("adam_update_ is refused in a capture", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor variable = Tensor::ones({4}, DType::f32, device);
  const Tensor gradient = variable.clone();
  const Tensor first = Tensor::zeros({4}, DType::f32, device),
               second = Tensor::zeros({4}, DType::f32, device);
  stream.synchronize();
  Capture capture({stream});
  REQUIRE_THROWS_MATCHES(adam_update_(variable, gradient, first, second, 3), Unsupported,
                         says("adam_update_", "captured", "step 3"));
  capture.end();
  capture.launch();
  REQUIRE(variable.to_vector<float>() == std::vector<float>(4, 1));
}

TEST_CASE("a write that would move a variable is refused in a capture", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  OneDeviceStrategy strategy(device);
  const auto in_strategy = strategy.scope();
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

TEST_CASE("an update in a capture stays in the variable's memory", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  OneDeviceStrategy strategy(device);
  const auto in_strategy = strategy.scope();
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

}  // namespace lockstep::test

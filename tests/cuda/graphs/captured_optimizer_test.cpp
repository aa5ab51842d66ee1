#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "cuda/graphs/captured_strategy.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE_METHOD(CapturedStrategy,
                 "a step of an optimizer is refused in a capture, which would repeat its number", "[cuda]") {
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

TEST_CASE_METHOD(CapturedStrategy, "an optimizer goes by iterations that a graph reads", "[cuda]") {
  Variable weights(Tensor::zeros({4}));
  const Tensor gradient = Tensor::ones({4}, DType::f32, device);
  optim::SGD sgd({.learning_rate = 1});
  const auto step = [&] { sgd.apply_gradients({{gradient, weights}}); };
  step();
  Tensor seen = Tensor::scalar(std::int64_t{0}, device);
  stream.synchronize();
  Capture capture({stream});
  seen.copy_(sgd.iterations().value());
  capture.end();
  const auto launched = [&] {
    capture.launch();
    return seen.item<std::int64_t>();
  };
  REQUIRE(launched() == 1);
  step();
  REQUIRE(launched() == 2);
  sgd.iterations().assign(7);
  REQUIRE(launched() == 7);
  step();
  REQUIRE(launched() == 8);
  REQUIRE(sgd.iterations().value().item<std::int64_t>() == 8);
}

TEST_CASE_METHOD(CapturedStrategy, "an optimizer goes by iterations that a graph writes", "[cuda]") {
  Variable weights(Tensor::zeros({4}));
  const Tensor gradient = Tensor::ones({4}, DType::f32, device);
  optim::SGD sgd({.learning_rate = 1});
  sgd.apply_gradients({{gradient, weights}});
  stream.synchronize();
  Capture capture({stream});
  sgd.iterations().assign_add(10);
  capture.end();
  capture.launch();
  capture.launch();
  sgd.apply_gradients({{gradient, weights}});
  REQUIRE(sgd.iterations().value().item<std::int64_t>() == 22);
}

}  // namespace lockstep::test

#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("a reduction that is started in a capture runs with the graph, and its Work is never complete",
          "[cuda]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  const Stream first(devices[0]), second(devices[1]);
  const StreamScope here(first), there(second);
  MirroredStrategy strategy(devices);
  PerReplica<Tensor> ones(
      {Tensor::ones({4}, DType::f32, devices[0]), Tensor::ones({4}, DType::f32, devices[1])});
  const auto start = [&] {
    return strategy.extended().start_batch_reduce_to(ReduceOp::sum, {{ones, devices[0]}});
  };
  start().wait();  // the first call connects
  Tensor seen = Tensor::zeros({4}, DType::f32, devices[0]);
  first.synchronize();
  second.synchronize();

  Capture capture({first, second});
  auto work = start();
  seen.copy_(work.wait()[0][0]);
  capture.end();
  const auto is_not_complete = [&] {
    CHECK_FALSE(work.is_complete());
    CHECK_FALSE(work.is_success());
    CHECK(work.exception() == nullptr);
    CHECK_THROWS_MATCHES(work.synchronize(), ContextError, says("Waiting for an event", "in a capture"));
  };
  is_not_complete();
  capture.launch();
  is_not_complete();
  CHECK(seen.to_vector<float>() == std::vector<float>(4, 2));
}

}  // namespace lockstep::test

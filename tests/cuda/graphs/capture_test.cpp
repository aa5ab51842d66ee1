#include "cuda/capture.hpp"

#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "cuda/gate.hpp"
#include "support/call_hook.hpp"
#include "support/communicator_group.hpp"
#include "support/matchers.hpp"

namespace lockstep::test {
namespace {

using Values = std::vector<float>;

}  // namespace

TEST_CASE("an event that was used in a capture leaves the next one as new", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device), other(device);
  Capture capture({stream});
  { Event(device).record(stream); }
  const Event next(device);
  REQUIRE(next.is_complete());
  other.wait(next);
  capture.end();
  REQUIRE(next.is_complete());
  other.wait(next);
}

TEST_CASE("a tensor goes to another device in a capture, whose stream joins it", "[cuda]") {
  if (TestBackend::num_devices() < 2) SKIP("needs two devices");
  const Stream here(TestBackend::device(0)), there(TestBackend::device(1));
  const StreamScope first(here), second(there);
  Tensor source = Tensor::ones({1000}, DType::f32, here.device());
  here.synchronize();
  Capture capture({here});
  const Tensor copy = source.to(there.device());
  capture.end();
  for (const float value : {2.0f, 3.0f}) {
    source.fill_(value);
    here.synchronize();
    capture.launch();
    REQUIRE(copy.to_vector<float>() == std::vector<float>(1000, value));
  }
}

TEST_CASE("a captured stream waits for nothing outside that is done", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device), other(device);
  Tensor term, sum;
  {
    const StreamScope scope(other);
    term = Tensor::ones({1000}, DType::f32, device);
    sum = Tensor::zeros({1000}, DType::f32, device);
  }
  const Event event(device);
  event.record(other);
  other.synchronize();
  const StreamScope scope(stream);
  Capture capture({stream});
  stream.wait(event);
  stream.wait(other);
  sum.add_(term);
  capture.end();
  capture.launch();
  capture.launch();
  REQUIRE(sum.to_vector<float>() == Values(1000, 2));
}

TEST_CASE("a wait in a capture that fails says so", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device), other(device);
  Capture capture({stream});
  const Event event(device);
  event.record(stream);
  other.wait(event);
  {
    const CallHook hook = CallHook::failing("cudaStreamWaitEvent", cudaErrorUnknown);
    CHECK_THROWS_MATCHES(other.wait(event), DeviceError, says("cudaStreamWaitEvent"));
  }
  const Event back(device);
  back.record(other);
  stream.wait(back);
  capture.end();
}

TEST_CASE("a captured stream is refused a wait for what is not done outside, and its capture goes on",
          "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device), other(device);
  const StreamScope scope(stream);
  Tensor sum = Tensor::ones({1000}, DType::f32, device);
  const Event event(device);
  stream.synchronize();
  std::optional<Gate> gate(other);
  event.record(other);
  Capture capture({stream});
  const auto refused = says("Making a stream wait for an event on " + device.to_string(), "is being captured",
                            "not done", "Synchronize");
  REQUIRE_THROWS_MATCHES(stream.wait(event), ContextError, refused);
  REQUIRE_THROWS_MATCHES(stream.wait(other), ContextError, refused);
  sum.add_(sum);
  capture.end();
  gate.reset();
  other.synchronize();
  capture.launch();
  REQUIRE(sum.to_vector<float>() == Values(1000, 2));
}

TEST_CASE("a tensor of a stream outside is copied to another device in a capture", "[cuda]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  Tensor source = Tensor::ones({1000}, DType::f32, devices[0]);
  current_stream(devices[0]).synchronize();
  const Stream there(devices[1]);
  const StreamScope scope(there);
  Capture capture({there});
  const Tensor copy = source.to(devices[1]);
  source.fill_(2.0f);  // not captured
  capture.end();
  for (const float value : {2.0f, 3.0f}) {
    current_stream(devices[0]).synchronize();
    capture.launch();
    REQUIRE(copy.to_vector<float>() == Values(1000, value));
    source.fill_(value + 1);
  }
}

TEST_CASE("a captured stream is refused a wait for another capture, and both go on", "[cuda]") {
  const int index = GENERATE(0, 1);  // the event's device
  const Device device = TestBackend::device(0), other_device = TestBackend::device(index);
  const Stream stream(device), other(other_device);
  Tensor a, b;
  {
    const StreamScope scope(stream);
    a = Tensor::ones({1000}, DType::f32, device);
  }
  {
    const StreamScope scope(other);
    b = Tensor::ones({1000}, DType::f32, other_device);
  }
  stream.synchronize();
  other.synchronize();
  Capture first({stream}), second({other});
  REQUIRE_THROWS_MATCHES(
      stream.wait(other), ContextError,
      says("Making a stream wait for an event on " + device.to_string(), "another capture", "fork"));
  {
    const StreamScope scope(stream);
    a.add_(1);
  }
  {
    const StreamScope scope(other);
    b.add_(1);
  }
  first.end();
  second.end();
  first.launch();
  second.launch();
  const StreamScope here(stream);
  REQUIRE(a.to_vector<float>() == Values(1000, 2));
  const StreamScope there(other);
  REQUIRE(b.to_vector<float>() == Values(1000, 2));
}

TEST_CASE("P42 collectives are captured into a graph, which repeats them", "[cuda]") {
  const int n = TestBackend::num_devices();
  CommunicatorGroup group(n);
  const auto op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::max);
  std::vector<Tensor> inputs, outputs;
  std::vector<TensorView> from, to;
  for (int rank = 0; rank < n; ++rank) {
    const StreamScope scope(group.stream(rank));
    inputs.push_back(Tensor::full({1000}, static_cast<float>(rank), DType::f32, group.stream(rank).device()));
    outputs.push_back(Tensor::zeros({1000}, DType::f32, group.stream(rank).device()));
    from.push_back(inputs.back().view());
    to.push_back(outputs.back().view());
  }
  group.communicator().all_reduce(op, from, to, group.streams());  // the first call connects
  for (const StreamRef& stream : group.streams()) stream.synchronize();

  Capture capture(group.streams());
  group.communicator().all_reduce(op, from, to, group.streams());
  capture.end();
  for (const float offset : {10.0f, 20.0f}) {
    for (int rank = 0; rank < n; ++rank) {
      const StreamScope scope(group.stream(rank));
      inputs[static_cast<std::size_t>(rank)].fill_(offset + static_cast<float>(rank));
      group.stream(rank).synchronize();
    }
    capture.launch();
    const auto count = static_cast<float>(n);
    const float sum = offset * count + count * (count - 1) / 2;
    const float expected = op == ReduceOp::sum    ? sum
                           : op == ReduceOp::mean ? sum / count
                                                  : offset + count - 1;
    for (int rank = 0; rank < n; ++rank) {
      const StreamScope scope(group.stream(rank));
      REQUIRE(outputs[static_cast<std::size_t>(rank)].to_vector<float>() == Values(1000, expected));
    }
  }
}

TEST_CASE("P42 a collective of streams in different captures is refused, naming capture", "[cuda]") {
  TestBackend::devices(2);
  CommunicatorGroup group(2);
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  for (int rank = 0; rank < 2; ++rank) {
    const StreamScope scope(group.stream(rank));
    tensors.push_back(Tensor::ones({10}, DType::f32, group.stream(rank).device()));
    views.push_back(tensors.back().view());
    group.stream(rank).synchronize();
  }
  REQUIRE(cudaStreamBeginCapture(cuda::native_stream(group.stream(0)), cudaStreamCaptureModeThreadLocal) ==
          cudaSuccess);
  REQUIRE_THROWS_MATCHES(group.communicator().all_reduce(ReduceOp::sum, views, views, group.streams()),
                         Unsupported, says("all_reduce", "rank 1", "capture"));
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(cuda::native_stream(group.stream(0)), &graph) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    const StreamScope scope(group.stream(rank));
    REQUIRE(tensors[static_cast<std::size_t>(rank)].to_vector<float>() == Values(10, 1));
  }
  group.communicator().all_reduce(ReduceOp::sum, views, views, group.streams());
  for (int rank = 0; rank < 2; ++rank) {
    const StreamScope scope(group.stream(rank));
    REQUIRE(tensors[static_cast<std::size_t>(rank)].to_vector<float>() == Values(10, 2));
  }
}

TEST_CASE("what virtual devices of one GPU would capture into several graphs is refused", "[cuda]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  DeviceManager& manager = DeviceManager::instance();
  if (manager.info(devices[0]).pci_bus_id != manager.info(devices[1]).pci_bus_id)
    SKIP("needs virtual devices of one GPU");
  CommunicatorGroup group(2);
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  for (int rank = 0; rank < 2; ++rank) {
    const StreamScope scope(group.stream(rank));
    tensors.push_back(Tensor::ones({10}, DType::f32, group.stream(rank).device()));
    views.push_back(tensors.back().view());
    group.stream(rank).synchronize();
  }
  {
    Capture first({group.stream(0)}), second({group.stream(1)});
    REQUIRE_THROWS_MATCHES(group.communicator().all_reduce(ReduceOp::sum, views, views, group.streams()),
                           Unsupported, says("all_reduce", "rank 1", "captured into one graph"));
    first.end();
    second.end();
  }
  {
    Capture first({group.stream(0)}, cudaStreamCaptureModeRelaxed);
    Capture second({group.stream(1)}, cudaStreamCaptureModeRelaxed);
    std::vector<std::string> messages(2);
    on_replicas(2, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      try {
        group.communicator().all_reduce(ReduceOp::sum, rank, views[r], views[r], group.stream(rank));
      } catch (const Unsupported& error) {
        messages[r] = error.what();
      }
    });
    for (const std::string& message : messages)
      CHECK(message.find("captured into one graph") != std::string::npos);
    first.end();
    second.end();
  }
  group.communicator().all_reduce(ReduceOp::sum, views, views, group.streams());
  for (int rank = 0; rank < 2; ++rank) {
    const StreamScope scope(group.stream(rank));
    REQUIRE(tensors[static_cast<std::size_t>(rank)].to_vector<float>() == Values(10, 2));
  }
}

TEST_CASE("P42 kernels of every family are captured", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor a = Tensor::full({64, 32}, 2.0f, DType::f32, device),
         b = Tensor::full({64, 32}, 3.0f, DType::f32, device);
  Tensor product = Tensor::zeros({32, 32}, DType::f32, device), sum = Tensor::zeros({32}, DType::f32, device);
  Tensor half = Tensor::zeros({64, 32}, DType::f16, device);
  const auto work = [&] {
    a.add_(b);
    product.copy_(matmul(a, b, true, false));
    sum.copy_(reduce_axes(ReduceOp::sum, a, 0, DType::f32));
    half.copy_(a.cast(DType::f16));
  };
  work();  // cuBLAS makes its workspace
  stream.synchronize();
  a.fill_(2.0f);
  stream.synchronize();
  Capture capture({stream});
  work();
  capture.end();
  capture.launch();
  capture.launch();
  REQUIRE(a.to_vector<float>() == Values(64 * 32, 8));
  REQUIRE(product.to_vector<float>() == Values(32 * 32, 64 * 24));
  REQUIRE(sum.to_vector<float>() == Values(32, 64 * 8));
  REQUIRE(half.cast(DType::f32).to_vector<float>() == Values(64 * 32, 8));
}

}  // namespace lockstep::test

#include <limits>
#include <memory>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "support/call_hook.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

using Values = std::vector<float>;

constexpr std::int64_t kSize = 1000;

Tensor filled(float value) { return Tensor::full({kSize}, value, DType::f32, TestBackend::device()); }

std::int64_t in_use() { return memory_stats(TestBackend::device()).in_use_bytes; }

}  // namespace

TEST_CASE("a tensor that is dropped in a capture stays the graph's", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Tensor result = filled(0);
  stream.synchronize();
  const std::int64_t before = in_use();
  {
    Tensor old = filled(21);
    stream.synchronize();
    Capture capture({stream});
    result.copy_(old * 2.0f);
    old = Tensor();
    capture.end();
    const Tensor others[] = {filled(1), filled(2), filled(3)};  // in its place, if it were free
    for (int i = 0; i < 2; ++i) {
      result.fill_(0);
      stream.synchronize();
      capture.launch();
      REQUIRE(result.to_vector<float>() == Values(kSize, 42));
    }
    REQUIRE(others[0].to_vector<float>() == Values(kSize, 1));
  }
  filled(0);  // looks for what can be freed
  REQUIRE(in_use() == before);
}

TEST_CASE("a tensor that is made in a capture and kept is the result of each launch", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Tensor input = filled(1);
  stream.synchronize();
  const std::int64_t before = in_use();
  {
    Capture capture({stream});
    Tensor kept = input + input;
    const Tensor sum = kept + input;
    capture.end();
    for (const float value : {1.0f, 5.0f}) {
      input.fill_(value);
      stream.synchronize();
      capture.launch();
      REQUIRE(kept.to_vector<float>() == Values(kSize, 2 * value));
      REQUIRE(sum.to_vector<float>() == Values(kSize, 3 * value));
    }
    kept = Tensor();  // the graph still writes there
    const Tensor others[] = {filled(1), filled(2)};
    stream.synchronize();
    capture.launch();
    REQUIRE(others[0].to_vector<float>() == Values(kSize, 1));
    REQUIRE(others[1].to_vector<float>() == Values(kSize, 2));
    REQUIRE(sum.to_vector<float>() == Values(kSize, 15));
  }
  filled(0);
  REQUIRE(in_use() == before);
}

TEST_CASE("a tensor that is made in a capture outlives the graph", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  const std::int64_t before = in_use();
  {
    Tensor kept;
    {
      Capture capture({stream});
      kept = filled(7);
      capture.end();
      capture.launch();
    }
    const Tensor others[] = {filled(1), filled(2)};
    REQUIRE(kept.to_vector<float>() == Values(kSize, 7));
    REQUIRE(others[0].to_vector<float>() == Values(kSize, 1));
  }
  REQUIRE(in_use() == before);
}

TEST_CASE("what a capture has dropped serves it again", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Tensor total = filled(0);
  stream.synchronize();
  const std::int64_t before = in_use();
  Capture capture({stream});
  for (int i = 0; i < 10; ++i) total.add_(total + 1.0f);
  REQUIRE(in_use() - before <= 2 * kSize * std::int64_t{sizeof(float)});
  capture.end();
  capture.launch();
  REQUIRE(total.to_vector<float>() == Values(kSize, 1023));
}

TEST_CASE("host values that are copied in a capture are read at the call", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Tensor result = filled(0);
  stream.synchronize();
  auto values = std::make_unique<Values>(kSize, 3.0f);
  Capture capture({stream});
  result.copy_(Tensor::from(*values, {kSize}, TestBackend::device()));
  capture.end();
  values->assign(kSize, 4.0f);
  values.reset();
  capture.launch();
  REQUIRE(result.to_vector<float>() == Values(kSize, 3));
}

TEST_CASE("what has to wait is refused in a capture, which goes on", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor result = filled(1);
  stream.synchronize();
  Capture capture({stream});
  result.add_(result);
  REQUIRE_THROWS_MATCHES(result.to_vector<float>(), ContextError,
                         says("Copying to the host", device.to_string(), "captured", "after the launch"));
  REQUIRE_THROWS_MATCHES(stream.synchronize(), ContextError, says("Waiting for a stream", "captured"));
  REQUIRE_THROWS_MATCHES(stream.is_complete(), ContextError, says("complete", "captured"));
  REQUIRE_THROWS_MATCHES(trim_memory(device), ContextError, says("trim_memory", "captured"));
  { const PinnedBuffer pinned(std::size_t{1} << 20, device); }
  capture.end();
  capture.launch();
  REQUIRE(result.to_vector<float>() == Values(kSize, 2));
}

TEST_CASE("running out of memory in a capture leaves it as it is", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor result = filled(1);
  stream.synchronize();
  Capture capture({stream});
  result.add_(result);
  REQUIRE_THROWS_MATCHES(Tensor::empty({std::int64_t{1} << 45}, DType::u8, device), OutOfMemory,
                         says("allocate on", device.to_string()));
  result.add_(result);
  capture.end();
  capture.launch();
  REQUIRE(result.to_vector<float>() == Values(kSize, 4));
}

TEST_CASE("running out of memory beside a capture leaves it as it is", "[cuda]") {
  const Device device = TestBackend::device();
  const auto mode =
      GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor result = filled(1);
  stream.synchronize();
  Capture capture({stream}, mode);
  result.add_(result);
  {
    const StreamScope other(default_stream(TestBackend::open()));
    REQUIRE_THROWS_MATCHES(Tensor::empty({std::int64_t{1} << 45}, DType::u8, device), OutOfMemory,
                           says("allocate on", device.to_string()));
  }
  result.add_(result);
  capture.end();
  capture.launch();
  REQUIRE(result.to_vector<float>() == Values(kSize, 4));
}

TEST_CASE("trimming another device leaves a capture as it is", "[cuda]") {
  const auto devices = TestBackend::devices(2);
  const Stream stream(devices[0]);
  const StreamScope scope(stream);
  Tensor result = filled(1);
  stream.synchronize();
  Capture capture({stream});
  result.add_(result);
  try {
    trim_memory(devices[1]);
  } catch (const ContextError&) {  // it is on the same GPU
  }
  capture.end();
  capture.launch();
  REQUIRE(result.to_vector<float>() == Values(kSize, 2));
}

TEST_CASE("what is dropped in a capture that has failed is freed after it", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  const std::int64_t before = in_use();
  {
    Tensor old = filled(1), older = filled(2);
    stream.synchronize();
    REQUIRE(cudaStreamBeginCapture(cuda::native_stream(stream), cudaStreamCaptureModeThreadLocal) ==
            cudaSuccess);
    Tensor made = old + old;
    older = Tensor();
    REQUIRE(cudaStreamSynchronize(cuda::native_stream(stream)) != cudaSuccess);
    cudaGetLastError();
    old = Tensor();
    made = Tensor();
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(cuda::native_stream(stream), &graph) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
  }
  filled(0);  // looks for what can be freed
  REQUIRE(in_use() == before);
}

TEST_CASE("the memory of the last graph is freed with the device", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Capture capture({stream});
  filled(1);
  capture.end();
  capture.launch();
}

TEST_CASE("an allocation that fails in a capture leaves no memory behind", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  filled(0);
  const std::int64_t before = in_use();
  {
    Capture capture({stream});
    {
      const CallHook hook = CallHook::failing("cudaStreamSynchronize", cudaErrorUnknown);
      REQUIRE_THROWS_AS(filled(1), DeviceError);
    }
    capture.end();
  }
  filled(0);
  REQUIRE(in_use() == before);
}

TEST_CASE("a call that fails when a graph's tensor is dropped loses no memory", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  const std::int64_t before = in_use();
  {
    Capture capture({stream});
    Tensor kept = filled(1);
    capture.end();
    const CallHook hook = CallHook::failing("cudaEventRecord", cudaErrorUnknown);
    kept = Tensor();
  }
  filled(0);
  REQUIRE(in_use() == before);
}

TEST_CASE("what cannot be kept with a graph is kept until the device goes", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Tensor result = filled(1);
  Tensor old = filled(2);
  stream.synchronize();
  const std::int64_t before = in_use();
  Capture capture({stream});
  result.add_(old);
  {
    const CallHook hook = CallHook::failing("cudaUserObjectCreate", cudaErrorUnknown);
    old = Tensor();
  }
  capture.end();
  REQUIRE(in_use() < before);
  const Tensor other = filled(5);
  stream.synchronize();
  capture.launch();
  REQUIRE(result.to_vector<float>() == Values(kSize, 3));
}

TEST_CASE("what waits for other streams goes on beside a capture", "[cuda]") {
  const Device device = TestBackend::device();
  const auto mode =
      GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
  const Stream stream(device), other(device);
  Tensor result;
  {
    const StreamScope scope(stream);
    result = filled(1);
    stream.synchronize();
  }
  Capture capture({stream}, mode);
  {
    const StreamScope scope(other);
    const Event event(device);
    REQUIRE(filled(3).to_vector<float>() == Values(kSize, 3));
    event.record(other);
    event.synchronize();
    REQUIRE(event.is_complete());
    REQUIRE(other.is_complete());
  }
  const StreamScope scope(stream);
  result.add_(result);
  capture.end();
  capture.launch();
  REQUIRE(result.to_vector<float>() == Values(kSize, 2));
}

TEST_CASE("waiting for an event of a capture is refused, and the capture goes on", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const StreamScope scope(stream);
  Tensor result = filled(1);
  stream.synchronize();
  const Event event(device);
  Capture capture({stream});
  result.add_(result);
  event.record(stream);
  const auto is_refused = [&] {
    REQUIRE_THROWS_MATCHES(
        event.synchronize(), ContextError,
        says("Waiting for an event", device.to_string(), "recorded in a capture", "launched"));
    REQUIRE_THROWS_MATCHES(event.is_complete(), ContextError, says("complete", "recorded in a capture"));
  };
  is_refused();
  capture.end();
  is_refused();
  const Stream outside(device);
  REQUIRE_THROWS_MATCHES(outside.wait(event), ContextError,
                         says("Making a stream wait for an event on " + device.to_string(),
                              "recorded in a capture", "Wait for the stream that it is launched on"));
  outside.synchronize();
  capture.launch();
  event.record(stream);
  event.synchronize();
  REQUIRE(event.is_complete());
  REQUIRE(result.to_vector<float>() == Values(kSize, 2));
}

}  // namespace lockstep::test

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/graph_backend.hpp>
#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "cuda/communicators/operands.hpp"
#include "support/call_hook.hpp"
#include "support/function_calls.hpp"
#include "support/matchers.hpp"

/// In which order graphs of functions come to the GPUs.
namespace lockstep::test {
namespace {

/// A stream for each replica, which are current in a scope.
class OwnStreams {
 public:
  explicit OwnStreams(int n) {
    for (int i = 0; i < n; ++i) streams_.push_back(std::make_unique<Stream>(TestBackend::device(i)));
  }
  class Scope {
   public:
    explicit Scope(const OwnStreams& own) {
      for (const auto& stream : own.streams_) scopes_.push_back(std::make_unique<StreamScope>(*stream));
    }
    ~Scope() {
      while (!scopes_.empty()) scopes_.pop_back();
    }

   private:
    std::vector<std::unique_ptr<StreamScope>> scopes_;
  };
  void synchronize() const {
    for (const auto& stream : streams_) stream->synchronize();
  }
  void wait_for_current() const {
    for (const auto& stream : streams_) stream->wait(current_stream(stream->device()));
  }

 private:
  std::vector<std::unique_ptr<Stream>> streams_;
};

auto summing(Strategy& strategy, float by) {
  return strategy.function(
      [by](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, x * by); });
}

float sum_of(int n) { return static_cast<float>(n * (n + 1)) / 2; }

}  // namespace

TEST_CASE("launches of two functions on different streams follow each other", "[cuda][function]") {
  const int n = TestBackend::num_devices();
  const OwnStreams ones(n), others(n);
  Replicas strategy(n);
  auto twice = summing(strategy, 2), thrice = summing(strategy, 3);
  const auto x = batch(n, 0, 1000);
  for (int call = 0; call < 2; ++call) twice(x), thrice(x);
  for (int i = 0; i < n; ++i) current_stream(TestBackend::device(i)).synchronize();
  std::vector<PerReplica<Tensor>> doubled, tripled;
  for (int call = 0; call < 6; ++call) {
    {
      const OwnStreams::Scope here(ones);
      doubled.push_back(twice(x));
    }
    const OwnStreams::Scope here(others);
    tripled.push_back(thrice(x));
  }
  ones.synchronize();
  others.synchronize();
  for (int call = 0; call < 6; ++call)
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(call);
      REQUIRE(doubled[at][i].to_vector<float>() == Values(1000, 2 * sum_of(n)));
      REQUIRE(tripled[at][i].to_vector<float>() == Values(1000, 3 * sum_of(n)));
    }
}

TEST_CASE("a launch follows one of a function that is gone, with its stream", "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Replicas strategy(n);
  auto twice = summing(strategy, 2);
  const auto x = batch(n, 0, 1000);
  for (int call = 0; call < 2; ++call) twice(x);
  for (int i = 0; i < n; ++i) current_stream(TestBackend::device(i)).synchronize();
  std::optional<PerReplica<Tensor>> tripled;
  {
    const OwnStreams own(n);
    const OwnStreams::Scope here(own);
    auto thrice = summing(strategy, 3);
    for (int call = 0; call < 3; ++call) tripled = thrice(x);
  }
  const auto doubled = twice(x);
  for (int i = 0; i < n; ++i) {
    REQUIRE(doubled[i].to_vector<float>() == Values(1000, 2 * sum_of(n)));
    REQUIRE((*tripled)[i].to_vector<float>() == Values(1000, 3 * sum_of(n)));
  }
}

TEST_CASE(
    "functions of two strategies on the same GPUs, called by two threads, come to all GPUs in one order",
    "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Replicas one(n), other(n);
  const auto x = batch(n, 0, 100);
  const auto call_often = [&](Strategy& strategy, float by, std::vector<PerReplica<Tensor>>& results) {
    auto step = summing(strategy, by);
    for (int call = 0; call < 25; ++call) results.push_back(step(x));
  };
  std::vector<PerReplica<Tensor>> doubled, tripled;
  {
    const std::jthread thread([&] { call_often(one, 2, doubled); });
    call_often(other, 3, tripled);
  }
  for (int i = 0; i < n; ++i) {
    REQUIRE(doubled.back()[i].to_vector<float>() == Values(100, 2 * sum_of(n)));
    REQUIRE(tripled.back()[i].to_vector<float>() == Values(100, 3 * sum_of(n)));
  }
}

TEST_CASE("a capture that a replica breaks fails the call on all replicas, and the next one works",
          "[cuda][function]") {
  const int n = std::min(2, TestBackend::num_devices());
  const auto implementation =
      GENERATE(CommunicationImplementation::automatic, CommunicationImplementation::nccl);
  Replicas strategy(n, {.implementation = implementation});
  bool breaks = false;
  const auto sums = [&](ReplicaContext& ctx, const Tensor& x) {
    const Tensor twice = x * 2.0f;
    if (breaks && ctx.local_index() == 0)
      CHECK(cudaStreamSynchronize(cuda::native_stream(ctx.stream())) == cudaErrorStreamCaptureUnsupported);
    return ctx.all_reduce(ReduceOp::sum, twice);
  };
  auto step = strategy.function(sums);
  const auto x = batch(n, 0);
  const Values expected(5, 2 * sum_of(n));
  REQUIRE(step(x)[0].to_vector<float>() == expected);
  breaks = true;
  for (int attempt = 0; attempt < 2; ++attempt)
    REQUIRE_THROWS_MATCHES(step(x), DeviceError, says("cudaErrorStreamCaptureInvalidated"));
  breaks = false;
  REQUIRE(strategy.run(sums, x)[0].to_vector<float>() == expected);
  for (int call = 0; call < kCalls; ++call) REQUIRE(step(x)[n - 1].to_vector<float>() == expected);
}

TEST_CASE("a collective is refused on all ranks where one's capture has failed, and the next one works",
          "[cuda][function]") {
  const int n = std::min(2, TestBackend::num_devices());
  const CommunicationOptions options{
      .implementation = GENERATE(CommunicationImplementation::automatic, CommunicationImplementation::nccl)};
  Operands operands(n);
  Communicator communicator = Communicator::create(TestBackend::devices(n));
  const auto reduce = [&](Communicator& one) {
    one.all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams, options);
  };
  reduce(communicator);
  operands.synchronize();
  const auto graphs_of = [](const StreamRef& stream) { return stream.device_backend().graphs(); };
  for (const StreamRef& stream : operands.streams) graphs_of(stream)->begin_capture(stream.handle());
  const StreamRef& broken = operands.streams.back();
  CHECK(cudaStreamSynchronize(cuda::native_stream(broken)) == cudaErrorStreamCaptureUnsupported);
  CHECK_THROWS_MATCHES(reduce(communicator), ContextError,
                       says("all_reduce(sum) on rank " + std::to_string(n - 1),
                            "capture that its stream is in has failed", "capture again"));
  for (const StreamRef& stream : operands.streams) graphs_of(stream)->drop_capture(stream.handle());
  reduce(communicator);
  operands.synchronize();
  CHECK(operands.all_are(sum_of(n) * static_cast<float>(n)));
}

TEST_CASE("a function is not called while its stream is captured", "[cuda][function]") {
  Replicas strategy(1);
  auto step = summing(strategy, 2);
  const auto x = batch(1, 0);
  for (int call = 0; call < 2; ++call) step(x);
  const OwnStreams own(1);
  const OwnStreams::Scope here(own);
  own.wait_for_current();
  const StreamRef stream = current_stream(TestBackend::device(0));
  stream.synchronize();
  backend::GraphBackend& graphs = *stream.device_backend().graphs();
  graphs.begin_capture(stream.handle());
  CHECK_THROWS_MATCHES(step(x), ContextError,
                       says("function on", "current stream is being captured", "after the capture"));
  graphs.drop_capture(stream.handle());
  CHECK(step(x)[0].to_vector<float>() == Values(5, 2));

  stream.synchronize();
  graphs.begin_capture(stream.handle());
  {
    const StreamScope on_default(default_stream(stream.device_backend()));
    CHECK_THROWS_MATCHES(step(x), ContextError,
                         says("function on", "last launch", "is being captured", "after the capture"));
  }
  graphs.drop_capture(stream.handle());
  const StreamScope on_default(default_stream(stream.device_backend()));
  CHECK(step(x)[0].to_vector<float>() == Values(5, 2));
}

TEST_CASE("a function that was launched, and whose call fails then, cannot be called again",
          "[cuda][function]") {
  if (TestBackend::num_devices() < 2 || TestBackend::open(0).ordinal() != TestBackend::open(1).ordinal())
    SKIP("needs 2 virtual devices of one GPU");
  Replicas strategy(2);
  auto step = summing(strategy, 2);
  const auto x = batch(2, 0);
  for (int call = 0; call < 2; ++call) step(x);
  {
    std::atomic<bool> is_launched{false};
    const CallHook hook([&](std::string_view name, bool is_over) {
      if (name == "cudaGraphLaunch" && is_over) is_launched = true;
      return name == "cudaEventRecord" && !is_over && is_launched ? cudaErrorUnknown : cudaSuccess;
    });
    CHECK_THROWS_MATCHES(step(x), DeviceError, says("Recording an event"));
  }
  CHECK_THROWS_MATCHES(step(x), CollectiveAborted, says("function", "Make a new strategy"));
}

}  // namespace lockstep::test

#include "communicators/left_communicators.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <unistd.h>

#include <lockstep/lockstep.hpp>

#include "communicators/native_communicators.hpp"
#include "cuda/capture.hpp"
#include "cuda/communicators/operands.hpp"
#include "support/asleep.hpp"
#include "support/call_hook.hpp"
#include "support/scoped_log_sink.hpp"

namespace lockstep::test {

TEST_CASE("a communicator whose graphs are just going is ended, not left", "[cuda]") {
  need_gpus(2);
  std::vector<std::string> log;
  const ScopedLogSink sink([&](std::string_view message) { log.emplace_back(message); });
  auto captured = std::make_shared<const int>();
  cuda::LeftCommunicators::Group group{
      cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::minutes(1)), captured};
  const pid_t caller = ::gettid();
  // As CUDA does, in a thread of its own, some time after the graph is destroyed.
  const auto graph =
      std::async(std::launch::async, [caller, captured = std::exchange(captured, nullptr)]() mutable {
        wait_until_asleep(caller);
        captured.reset();
      });
  cuda::LeftCommunicators::instance().end(std::move(group));
  CHECK(log.empty());
}

TEST_CASE("a communicator may go before the graphs that have its collectives", "[cuda]") {
  need_gpus(2);
  const bool aborts = GENERATE(false, true);
  Operands operands(2);
  std::optional<Communicator> communicator = Communicator::create(TestBackend::devices(2));
  communicator->all_reduce(ReduceOp::mean, operands.views, operands.views, operands.streams);
  operands.synchronize();
  std::vector<std::string> log;
  {
    const ScopedLogSink sink([&](std::string_view message) { log.emplace_back(message); });
    Capture capture(operands.streams);
    communicator->all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams);
    capture.end();
    if (aborts) communicator->abort();
    communicator.reset();
    REQUIRE(log.size() == 1);
    CHECK(log[0].find("a CUDA graph has its collectives") != std::string::npos);
    if (!aborts) {
      capture.launch();
      REQUIRE(operands.all_are(3));
    }
  }
  static_cast<void>(
      Communicator::create(TestBackend::devices(2)));  // ends the one that was left, as the leak check sees
}

TEST_CASE("trim_memory ends communicators that were left, when their graphs are gone", "[cuda]") {
  need_gpus(2);
  Operands operands(2);
  std::optional<Communicator> communicator = Communicator::create(TestBackend::devices(2));
  const ScopedLogSink sink([](std::string_view) {});
  int num_ended = 0;
  const auto trim = [&] {
    const CallHook hook([&](std::string_view name, bool is_over) {
      num_ended += name == "ncclCommDestroy" && is_over;
      return 0;
    });
    trim_memory(TestBackend::device(0));
  };
  {
    Capture capture(operands.streams);
    communicator->all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams);
    communicator.reset();
    capture.end();
    trim();
    REQUIRE(num_ended == 0);
    capture.launch();
    REQUIRE(operands.all_are(3));
  }
  trim();
  REQUIRE(num_ended == 2);
}

// In a process of its own, under the leak check.
TEST_CASE("a communicator that was left to its graphs is ended with the process", "[cuda]") {
  need_gpus(2);
  Operands operands(2);
  std::optional<Communicator> communicator = Communicator::create(TestBackend::devices(2));
  const ScopedLogSink sink([](std::string_view) {});
  Capture capture(operands.streams);
  communicator->all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams);
  communicator.reset();
  capture.end();
  capture.launch();
  REQUIRE(operands.all_are(3));
}

TEST_CASE("a communicator is made and ended beside a capture of mode Global, which goes on", "[cuda]") {
  need_gpus(2);
  const std::vector<Device> devices = TestBackend::devices(2);
  const Stream stream(devices[1]);
  const StreamScope scope(stream);
  Tensor result = Tensor::ones({7}, DType::f32, devices[1]);
  std::optional<Communicator> ended = Communicator::create(devices), aborted = Communicator::create(devices);
  stream.synchronize();
  std::atomic<int> num_calls = 0;
  const CallHook hook([&](std::string_view name, bool is_over) {
    if (is_over || (name != "ncclCommInitRank" && name != "ncclCommDestroy" && name != "ncclCommAbort"))
      return 0;
    ++num_calls;
    return static_cast<int>(cudaFreeHost(nullptr));  // NCCL allocates and frees page-locked memory there
  });

  Capture capture({stream}, cudaStreamCaptureModeGlobal);
  result.add_(result);
  ended.reset();
  aborted->abort();
  static_cast<void>(Communicator::create(devices));  // is ended at once
  REQUIRE(num_calls == 4 * 2);
  capture.end();
  capture.launch();
  REQUIRE(result.to_vector<float>() == std::vector<float>(7, 2));
}

}  // namespace lockstep::test

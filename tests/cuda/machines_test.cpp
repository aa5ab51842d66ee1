// Machines on which not all is as it should be. Each test needs settings of the virtual GPUs of its own, and
// is skipped without.
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

#include "cuda/has_context.hpp"
#include "support/captured_stderr.hpp"
#include "support/child_process.hpp"
#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"

namespace lockstep::test {
namespace {

using Catch::Matchers::ContainsSubstring;

void needs_setting(const char* variable, const std::string& value) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || text != value) SKIP("needs " << variable << "=" << value);
}

/// What the log says while it lives.
struct Log {
  std::vector<std::string> lines;
  ScopedLogSink sink{[this](std::string_view line) { lines.emplace_back(line); }};
};

std::vector<Device> gpus() { return DeviceManager::instance().devices(DeviceKind::gpu); }

/// The host serves, and one line says why.
std::string line_of_unusable_driver() {
  Log log;
  for (int i = 0; i < 2; ++i) {
    CHECK(gpus().empty());
    MirroredStrategy strategy;
    CHECK(strategy.extended().worker_devices() == std::vector<Device>{Device("CPU:0")});
  }
  REQUIRE(log.lines.size() == 1);
  return log.lines[0];
}

/// 3: f throws a ContextError about forks.
template <class F>
int refusal(const F& f) {
  try {
    f();
  } catch (const ContextError& error) {
    return std::string(error.what()).find("fork") != std::string::npos ? 3 : 4;
  }
  return 5;
}

}  // namespace

TEST_CASE("a driver that is too old is said in one line, and the host serves", "[cuda]") {
  needs_setting("VGPU_DRIVER", "12.8");
  CHECK_THAT(line_of_unusable_driver(), ContainsSubstring("GPUs are not used") &&
                                            ContainsSubstring("cudaErrorInsufficientDriver (35)") &&
                                            ContainsSubstring("CUDA 12.8") &&
                                            ContainsSubstring("CUDA 13.0") && ContainsSubstring("update"));
}

TEST_CASE("a fabric manager that does not run is said in one line, and the host serves", "[cuda]") {
  needs_setting("VGPU_FABRIC_MANAGER", "0");
  CHECK_THAT(line_of_unusable_driver(), ContainsSubstring("cudaErrorSystemNotReady (802)") &&
                                            ContainsSubstring("start nvidia-fabricmanager"));
}

TEST_CASE("a GPU without code in the library is left out, and refused by name", "[cuda]") {
  needs_setting("VGPU_CC", "9.0,7.5,8.6");
  Log log;
  const std::vector<Device> usable{Device("GPU:0"), Device("GPU:2")};
  for (int i = 0; i < 2; ++i) CHECK(gpus() == usable);
  CHECK(DeviceManager::instance().peer_links().size() == 2);
  REQUIRE(log.lines.size() == 1);
  CHECK_THAT(log.lines[0], ContainsSubstring("GPU:1 is not used where no devices are named") &&
                               ContainsSubstring("7.5") && ContainsSubstring("CMAKE_CUDA_ARCHITECTURES=75"));
  MirroredStrategy strategy;
  CHECK(strategy.extended().worker_devices() == usable);
  const auto sums =
      strategy.run([](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, Tensor::ones({3})); });
  CHECK(sums[1].to_vector<float>() == std::vector<float>(3, 2));
  CHECK(DeviceManager::instance().info("GPU:1").compute_capability == std::array{7, 5});
  CHECK_THROWS_MATCHES(Tensor::ones({3}, DType::f32, "GPU:1"), Unsupported,
                       says("GPU:1", "capability is 7.5", "has code for", "CMAKE_CUDA_ARCHITECTURES=75"));
  CHECK_THROWS_AS(OneDeviceStrategy("GPU:1"), Unsupported);
}

TEST_CASE("a GPU whose compute mode keeps the process out is left out", "[cuda]") {
  needs_setting("VGPU_COMPUTE_MODE", "default,prohibited,taken,exclusive");
  Log log;
  const std::vector<Device> usable{Device("GPU:0"), Device("GPU:3")};
  for (int i = 0; i < 2; ++i) CHECK(gpus() == usable);
  for (int ordinal = 0; ordinal < 4; ++ordinal) CHECK(!has_context(ordinal));
  REQUIRE(log.lines.size() == 2);
  CHECK_THAT(log.lines[0], ContainsSubstring("GPU:1") && ContainsSubstring("prohibited"));
  CHECK_THAT(log.lines[1],
             ContainsSubstring("GPU:2") && ContainsSubstring("exclusive, and another process has it"));
  MirroredStrategy strategy;
  CHECK(strategy.extended().worker_devices() == usable);
  CHECK(strategy.run([] { return Tensor::ones({3}) * 2.0f; })[1].to_vector<float>()[2] == 2);
  CHECK_THROWS_MATCHES(Tensor::ones({3}, DType::f32, "GPU:1"), DeviceError,
                       says("GPU:1", "cuDevicePrimaryCtxRetain failed with cudaErrorDevicesUnavailable",
                            "Its compute mode is prohibited"));
  CHECK_THROWS_MATCHES(Tensor::ones({3}, DType::f32, "GPU:2"), DeviceError,
                       says("GPU:2", "Its compute mode is exclusive, and another process has it"));
}

TEST_CASE("a fork of a process that has used GPUs is refused them, and releases nothing", "[cuda]") {
  needs_setting("VGPU_DEVICES", "2");
  const Device gpu("GPU:0");
  std::optional<Tensor> ones = Tensor::ones({3}, DType::f32, gpu);
  const Tensor other = Tensor::ones({3}, DType::f32, "GPU:1");
  std::optional<Stream> stream(std::in_place, gpu);
  std::optional<Event> event(std::in_place, gpu);
  std::optional<PinnedBuffer> pinned(std::in_place, 100, gpu);
  std::optional<MirroredStrategy> strategy(std::in_place, gpus());
  std::optional<Communicator> communicator = Communicator::create(gpus());
  const auto all_reduce = [&] {
    const std::vector<Tensor> tensors{Tensor::ones({2}, DType::f32, gpu),
                                      Tensor::ones({2}, DType::f32, "GPU:1")};
    return strategy->run([&](ReplicaContext& ctx) {
      return ctx.all_reduce(ReduceOp::sum, tensors[static_cast<std::size_t>(ctx.replica_id_in_sync_group())]);
    });
  };
  REQUIRE(all_reduce()[0].to_vector<float>()[1] == 2);
  CHECK(in_child([&] { return refusal([&] { static_cast<void>(Tensor::ones({3}, DType::f32, gpu)); }); }) ==
        3);
  CHECK(in_child([&] { return refusal([&] { static_cast<void>(*ones + *ones); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { static_cast<void>(ones->to_vector<float>()); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { stream->synchronize(); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { event->record(*stream); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { PinnedBuffer(100, gpu); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { static_cast<void>(memory_stats(gpu)); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { MirroredStrategy(); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { strategy->run([] {}); }); }) == 3);
  CHECK(in_child([&] {
          return refusal([&] {
            const std::vector<TensorView> views{ones->view(), other.view()};
            const std::vector<StreamRef> streams{current_stream(gpu), current_stream(other.device())};
            communicator->all_reduce(ReduceOp::sum, views, views, streams);
          });
        }) == 3);
  CHECK(in_child([&] {
          const std::string said = captured_stderr([&] {
            communicator.reset();
            strategy.reset();
            ones.reset();
            event.reset();
            stream.reset();
            pinned.reset();
          });
          return said.empty() ? 3 : 4;
        }) == 3);
  CHECK(in_child([&] {
          OneDeviceStrategy host(Device("CPU:0"));
          return static_cast<int>(host.run([] { return Tensor::scalar(3.0f); })[0].item<float>());
        }) == 3);
  CHECK(all_reduce()[1].to_vector<float>()[1] == 2);
}

TEST_CASE("a fork of a process that has used no GPU can use them", "[cuda]") {
  needs_setting("VGPU_DEVICES", "2");
  CHECK(in_child([] {
          const Tensor ones = Tensor::ones({3}, DType::f32, "GPU:1");
          return static_cast<int>((ones + ones).to_vector<float>()[2]) + 1;
        }) == 3);
}

}  // namespace lockstep::test

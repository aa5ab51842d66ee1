// Machines on which not all is as it should be. Each test needs settings of the virtual GPUs of its own, and
// is skipped without.
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/captured_stderr.hpp"
#include "support/child_process.hpp"

namespace lockstep::test {
namespace {

void needs_setting(const char* variable, const std::string& value) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || text != value) SKIP("needs " << variable << "=" << value);
}

std::vector<Device> gpus() { return DeviceManager::instance().devices(DeviceKind::gpu); }

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
  CHECK(in_child([&] { return refusal([&] { Tensor::ones({3}, DType::f32, gpu); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { *ones + *ones; }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { ones->to_vector<float>(); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { stream->synchronize(); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { event->record(*stream); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { PinnedBuffer(100, gpu); }); }) == 3);
  CHECK(in_child([&] { return refusal([&] { memory_stats(gpu); }); }) == 3);
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

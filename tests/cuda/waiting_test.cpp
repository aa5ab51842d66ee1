#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

#include "cuda/gate.hpp"
#include "support/call_hook.hpp"
#include "support/communicator_group.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

namespace lockstep::test {
namespace {

/// One of each kind of work. Its results are on each rank's stream.
std::vector<Tensor> enqueue(CommunicatorGroup& group) {
  std::vector<Tensor> results;
  std::vector<TensorView> views;
  for (int rank = 0; rank < group.size(); ++rank) {
    const StreamRef stream = group.stream(rank);
    const StreamScope scope(stream);
    const Tensor a = Tensor::full({8, 8}, static_cast<float>(rank + 1), DType::f32, stream.device());
    const Tensor product = matmul(a, a.cast(DType::f64).cast(DType::f32));
    results.push_back(reduce_axes(ReduceOp::sum, product + a, 0, DType::f32).clone());
    views.push_back(results.back().view());
    const Event event(stream.device());
    event.record(stream);
    stream.wait(event);
  }
  group.communicator().all_reduce(ReduceOp::mean, views, views, group.streams());
  return results;
}

}  // namespace

TEST_CASE("what is enqueued does not wait for what is before it", "[cuda]") {
  CommunicatorGroup group(TestBackend::num_devices());
  const std::vector<Tensor> first = enqueue(group);  // loads kernels, connects, and makes the pools grow
  for (const StreamRef& stream : group.streams()) stream.synchronize();
  std::vector<Tensor> second;
  {
    const Gate gate(group.stream(0));  // one: host functions may take turns
    for (int rank = 1; rank < group.size(); ++rank) group.stream(rank).wait(group.stream(0));
    second = enqueue(group);
    for (const StreamRef& stream : group.streams()) REQUIRE(!stream.is_complete());
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    const StreamScope scope(group.stream(rank));
    const auto index = static_cast<std::size_t>(rank);
    REQUIRE(second[index].to_vector<float>() == first[index].to_vector<float>());
  }
}

TEST_CASE("a reduction that is started, and whose end is not marked, is waited for", "[cuda]") {
  if (TestBackend::num_devices() < 2 || TestBackend::open(0).ordinal() == TestBackend::open(1).ordinal())
    SKIP("needs 2 GPUs");
  const bool is_batch = GENERATE(false, true);
  // With a limit the communicator marks the end, too.
  const CommunicationOptions options{.timeout = std::chrono::seconds(is_batch ? 60 : 0),
                                     .implementation = CommunicationImplementation::nccl};
  // The operands go with the work, and are too long for what streams keep.
  const auto ones = [](int rank) { return Tensor::ones({400'000}, DType::f32, TestBackend::device(rank)); };
  const auto reduce = [&](Replicas& strategy) -> Tensor {
    if (!is_batch)
      return strategy.run([&](ReplicaContext& ctx) {
        auto work = ctx.start_all_reduce(ReduceOp::sum, ones(ctx.replica_id_in_sync_group()), options);
        return work.wait();
      })[0];
    std::vector<std::pair<ReduceValue, Destination>> pairs;
    pairs.emplace_back(PerReplica<Tensor>(std::vector<Tensor>{ones(0), ones(1)}),
                       Destination(TestBackend::device(0)));
    return strategy.extended().start_batch_reduce_to(ReduceOp::sum, pairs, options).wait()[0][0];
  };
  Replicas first(2);
  reduce(first);
  {
    std::atomic<bool> is_enqueued{false};
    const CallHook hook([&](std::string_view name, bool is_over) {
      if ((name == "ncclAllReduce" || name == "ncclReduce") && is_over) is_enqueued = true;
      return name == "cudaEventRecord" && !is_over && is_enqueued.exchange(false) ? cudaErrorUnknown
                                                                                  : cudaSuccess;
    });
    CHECK_THROWS_MATCHES(reduce(first), DeviceError, says("Recording an event"));
  }
  Replicas next(2);
  CHECK(reduce(next).to_vector<float>() == std::vector<float>(400'000, 2));
}

TEST_CASE("a reduction by peers whose end is not marked is waited for", "[cuda]") {
  if (TestBackend::num_devices() < 2 || TestBackend::open(0).ordinal() == TestBackend::open(1).ordinal())
    SKIP("needs 2 GPUs");
  const int unmarked = GENERATE(0, 1);  // the rank
  const std::vector<Device> devices = {TestBackend::device(0), TestBackend::device(1)};
  const auto reduce = [&](Communicator& communicator) {
    std::vector<Tensor> ones, sums;
    std::vector<TensorView> inputs, outputs;
    std::vector<StreamRef> streams;
    for (const Device& device : devices) {
      inputs.push_back(ones.emplace_back(Tensor::ones({50}, DType::f32, device)).view());
      outputs.push_back(sums.emplace_back(Tensor::zeros({50}, DType::f32, device)).view());
      streams.push_back(current_stream(device));
    }
    communicator.all_reduce(ReduceOp::sum, inputs, outputs, streams,
                            {.implementation = CommunicationImplementation::peer});
    return sums[1].to_vector<float>();
  };
  {
    std::optional<Gate> gate;
    std::jthread opener;  // while the communicator is destroyed
    Communicator communicator = Communicator::create(devices);
    reduce(communicator);
    gate.emplace(current_stream(devices[static_cast<std::size_t>(unmarked)]));
    int num_marks = 0;
    const CallHook hook([&](std::string_view name, bool is_over) {
      return name == "cudaEventRecord" && !is_over && num_marks++ == unmarked ? cudaErrorUnknown
                                                                              : cudaSuccess;
    });
    CHECK_THROWS_MATCHES(reduce(communicator), DeviceError, says("Recording an event"));
    opener = std::jthread([&gate] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      gate.reset();
    });
  }
  Communicator next = Communicator::create(devices);
  CHECK(reduce(next) == std::vector<float>(50, 2));
}

TEST_CASE("a communicator of one GPU that cannot be made leaves no event", "[cuda]") {
  if (TestBackend::num_devices() < 2 || TestBackend::open(0).ordinal() != TestBackend::open(1).ordinal())
    SKIP("needs 2 virtual devices of one GPU");
  const std::vector<Device> devices = {TestBackend::device(0), TestBackend::device(1)};
  static_cast<void>(Communicator::create(devices));
  std::atomic<int> num_made{0}, num_destroyed{0};
  const CallHook hook([&](std::string_view name, bool is_over) {
    if (name.starts_with("cudaEventCreate") && !is_over && ++num_made == 2) return cudaErrorUnknown;
    if (name == "cudaEventDestroy" && is_over) ++num_destroyed;
    return cudaSuccess;
  });
  CHECK_THROWS_MATCHES(Communicator::create(devices), DeviceError, says("Making an event"));
  CHECK(num_destroyed == 1);
}

}  // namespace lockstep::test

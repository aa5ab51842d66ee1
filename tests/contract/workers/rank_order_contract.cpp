#include <memory>
#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "cluster/worker_group.hpp"
#include "strategy/runtime/replica_groups.hpp"
#include "support/world.hpp"

/// Deterministic reductions of a communicator whose ranks are in several workers.
namespace lockstep::test {

namespace {

/// A communicator of the world's replicas, as a strategy has one; all workers make it together.
struct Group {
  Group() {
    if (world().num_workers > 1)
      workers =
          detail::WorkerGroup::connect(*cluster::from_environment(), {}, cluster::environment_variables());
    replicas.emplace(world().devices, CommunicationOptions{}, workers.get());
  }
  Communicator& communicator() { return replicas->communicator(); }

  std::shared_ptr<detail::WorkerGroup> workers;
  std::optional<detail::ReplicaGroup> replicas;
};

/// Each replica's equal elements. In rank order what comes before -1e8 is lost in 1e8; in others it is not.
float element(int replica) {
  constexpr float kElements[] = {1e8f, 1.0f, -1e8f, 1.0f};
  return kElements[replica % 4];
}

float sum_in_rank_order() {
  float sum = 0;
  for (int replica = 0; replica < world().num_replicas; ++replica) sum += element(replica);
  return sum;
}

}  // namespace

TEST_CASE("a plan over workers says what carries their values", "[workers]") {
  const World& w = world();
  Group group;
  const Communicator& communicator = group.communicator();
  const bool is_on_host = w.devices.front().kind() == DeviceKind::cpu;
  const CommunicationPlan brief = communicator.plan(ReduceOp::sum, DType::f32, 8);
  const CommunicationPlan lengthy = communicator.plan(ReduceOp::sum, DType::f32, 1 << 20);
  for (const CommunicationPlan& plan : {brief, lengthy}) {
    REQUIRE(plan.num_ranks == w.num_replicas);
    REQUIRE((plan.num_launches == 0) == is_on_host);
    REQUIRE(plan.bytes_read >= plan.size_bytes);
    REQUIRE(plan.in_rank_order == (is_on_host || plan.path != CommunicationPath::nccl));
  }
  if (w.num_workers == 1) return;
  REQUIRE(brief.path == (is_on_host ? CommunicationPath::with_meeting : CommunicationPath::nccl));
  REQUIRE(lengthy.path == (is_on_host ? CommunicationPath::processes : CommunicationPath::nccl));
  if (!is_on_host) REQUIRE(lengthy.reason == "the ranks are in several processes");
}

TEST_CASE("deterministic reductions over workers combine in rank order", "[workers]") {
  const World& w = world();
  const int num_blocks = GENERATE(1, 1000);
  CAPTURE(num_blocks);
  const std::int64_t received = num_blocks, sent = w.num_replicas * received;
  Group group;
  const CommunicationOptions options{.deterministic = true};

  const auto check = [&](std::int64_t length, std::int64_t result_length, int root, float expected,
                         const auto& reduce) {
    std::vector<Tensor> inputs, outputs;
    std::vector<TensorView> in, out;
    for (int i = 0; i < w.num_local_replicas; ++i) {
      const Device& device = w.devices[static_cast<std::size_t>(i)];
      inputs.push_back(Tensor::full({length}, element(w.first_replica + i), DType::f32, device));
      outputs.push_back(Tensor::full({result_length}, 7.0f, DType::f32, device));
    }
    for (const Tensor& tensor : inputs) in.push_back(tensor.view());
    for (const Tensor& tensor : outputs) out.push_back(tensor.view());
    std::vector<RankBatch> batches;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const int rank = w.first_replica + static_cast<int>(i);
      const bool receives = root < 0 || rank == root;
      batches.push_back({rank, current_stream(w.devices[i]), {&in[i], 1}, {&out[i], std::size_t{receives}}});
    }
    reduce(group.communicator(), std::span<const RankBatch>(batches));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool receives = root < 0 || batches[i].rank == root;
      const std::vector<float> wanted(static_cast<std::size_t>(result_length), receives ? expected : 7.0f);
      CHECK(outputs[i].to_vector<float>() == wanted);
    }
  };
  const float sum = sum_in_rank_order();
  check(sent, sent, -1, sum / static_cast<float>(w.num_replicas),
        [&](Communicator& communicator, std::span<const RankBatch> batches) {
          communicator.all_reduce(ReduceOp::mean, batches, options);
        });
  check(sent, sent, w.last_replica(), sum,
        [&](Communicator& communicator, std::span<const RankBatch> batches) {
          communicator.reduce(ReduceOp::sum, w.last_replica(), batches, options);
        });
  check(sent, received, -1, sum, [&](Communicator& communicator, std::span<const RankBatch> batches) {
    communicator.reduce_scatter(ReduceOp::sum, batches, options);
  });
}

}  // namespace lockstep::test

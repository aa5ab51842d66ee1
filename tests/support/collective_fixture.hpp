#pragma once

#include <atomic>
#include <functional>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/communicator_group.hpp"
#include "support/matchers.hpp"

namespace lockstep::test {

/// "rank 2 (CPU:2)".
inline std::string label(int rank, int device) {
  return "rank " + std::to_string(rank) + " (" + TestBackend::device(device).to_string() + ")";
}

/// Three ranks with six floats in and out each, to be spoiled by a test. Roots are rank 1.
struct CollectiveFixture {
  CommunicatorGroup group{3};
  RankBuffers<float> inputs{group, {{0, 1, 2, 3, 4, 5}, {10, 11, 12, 13, 14, 15}, {20, 21, 22, 23, 24, 25}}};
  RankBuffers<float> outputs{group, std::vector<std::vector<float>>(3, std::vector<float>(6, -1))};
  std::vector<RankViews> views;

  CollectiveFixture() {
    for (int rank = 0; rank < 3; ++rank) views.push_back({{inputs[rank].view()}, {outputs[rank].view()}});
  }
  Communicator& communicator() { return group.communicator(); }
  RankViews& of(int rank) { return views[static_cast<std::size_t>(rank)]; }
  TensorView& in(int rank) { return of(rank).inputs[0]; }
  TensorView& out(int rank) { return of(rank).outputs[0]; }

  using Collective = std::function<void(std::span<const RankBatch>)>;
  Collective all_reduce = [this](auto batches) { communicator().all_reduce(ReduceOp::sum, batches); };
  Collective reduce = [this](auto batches) { communicator().reduce(ReduceOp::sum, 1, batches); };
  Collective broadcast = [this](auto batches) { communicator().broadcast(1, batches); };
  Collective all_gather = [this](auto batches) { communicator().all_gather(batches); };
  Collective reduce_scatter = [this](auto batches) { communicator().reduce_scatter(ReduceOp::sum, batches); };

  Collective gather = [this](auto batches) { communicator().gather(1, batches); };
  Collective scatter = [this](auto batches) { communicator().scatter(1, batches); };
  Collective all_to_all = [this](auto batches) { communicator().all_to_all(batches); };
  std::vector<int> destinations{1, 2, 0};
  Collective send_recv = [this](auto batches) { communicator().send_recv(destinations, batches); };

  /// Refused on every rank, with all parts in the message, and nothing was written.
  template <class Kind>
  void refuses(const Collective& collective, const Says& message) {
    REQUIRE_THROWS_MATCHES(group.run(Drive::one_thread, views, collective), Kind, message);
    std::atomic<int> refused = 0;
    group.run(Drive::thread_per_replica, views, [&](std::span<const RankBatch> batch) {
      try {
        collective(batch);
      } catch (const Kind& error) {
        if (message.match(error)) ++refused;
      }
    });
    REQUIRE(refused == 3);
    REQUIRE(outputs.all_are(std::vector<float>(6, -1)));
    for (int rank = 0; rank < 3; ++rank)
      REQUIRE(inputs[rank].values()[5] == 10.0f * static_cast<float>(rank) + 5);
  }
  /// Good calls go through afterwards.
  void recovers() {
    for (int rank = 0; rank < 3; ++rank) of(rank) = {{inputs[rank].view()}, {outputs[rank].view()}};
    group.run(Drive::thread_per_replica, views, all_reduce);
    REQUIRE(outputs.all_are({30, 33, 36, 39, 42, 45}));
  }
};

}  // namespace lockstep::test

#include <atomic>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/version.hpp>

#include "support/collective_fixture.hpp"
#include "support/replica_values.hpp"
#include "support/scoped_log_sink.hpp"

using namespace lockstep;
using namespace lockstep::test;
using namespace std::chrono_literals;
using Fixture = CollectiveFixture;

TEST_CASE("P44 a collective that lacks a replica ends in time and names it", "[collectives]") {
  Fixture f;
  std::atomic<int> told = 0;
  f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
    f.communicator().all_reduce(ReduceOp::sum, batch);
    if (batch[0].rank == 1) return;
    try {
      f.communicator().all_reduce(ReduceOp::sum, batch, {.timeout = 50ms});
    } catch (const CollectiveTimeout& error) {
      const Says message = says("all_reduce(sum), call 1", "50 ms",
                                "Present: " + label(0, 0) + ", " + label(2, 2), "missing: " + label(1, 1));
      if (message.match(error)) ++told;
    }
  });
  REQUIRE(told == 2);
}

TEST_CASE("a communicator reports what its ranks did last", "[collectives]") {
  Fixture f;
  REQUIRE(f.communicator().report().groups.size() == 1);
  const Drive drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  f.group.run(drive, f.views, [&](std::span<const RankBatch> batch) {
    f.communicator().all_reduce(ReduceOp::sum, batch, {.label = "six floats"});
  });
  const GroupReport group = f.communicator().report().groups[0];
  REQUIRE(group.ranks.size() == 3);
  CHECK(group.difference.empty());
  for (const RankReport& rank : group.ranks) {
    CHECK(rank.label == label(rank.rank, rank.rank));
    REQUIRE(rank.calls.size() == 1);
    CHECK(rank.calls[0].operation == "all_reduce(sum)");
    CHECK(rank.calls[0].operands == "[6] float32");
    CHECK(rank.calls[0].label == "six floats");
    const bool enqueues = TestBackend::capabilities().asynchronous;
    CHECK(rank.calls[0].state == (enqueues ? CallState::enqueued : CallState::completed));
  }
  TensorView& input = f.in(0);
  input.data = nullptr;
  REQUIRE_THROWS_AS(f.communicator().all_reduce(ReduceOp::sum, f.group.batches(f.views)), InvalidArgument);
  const Report refused = f.communicator().report();
  for (const RankReport& rank : refused.groups[0].ranks) CHECK(rank.calls.back().state == CallState::failed);
}

TEST_CASE("a communicator without GPUs that is to use nccl says once that it does not", "[collectives]") {
  Fixture f;
  std::vector<std::string> logged;
  const test::ScopedLogSink sink([&](std::string_view message) { logged.emplace_back(message); });
  const CommunicationOptions nccl{.implementation = CommunicationImplementation::nccl};
  f.communicator().all_reduce(ReduceOp::sum, f.group.batches(f.views),
                              {.implementation = CommunicationImplementation::ring});
  REQUIRE(logged.empty());
  f.communicator().all_reduce(ReduceOp::sum, f.group.batches(f.views), nccl);
  f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
    f.communicator().all_reduce(ReduceOp::sum, batch, nccl);
  });
  if (TestBackend::device(0).kind() == DeviceKind::gpu) {
    REQUIRE(logged.empty());
  } else {
    REQUIRE(logged ==
            std::vector<std::string>{"CommunicationOptions: nccl is between GPUs, and a communicator "
                                     "of 3 ranks, the first on CPU:0, uses shared memory"});
  }
  f.recovers();
}

TEST_CASE("a strategy without GPUs that is to use nccl says so", "[collectives][strategy]") {
  Replicas strategy(2, {.implementation = CommunicationImplementation::nccl});
  std::atomic<int> num_warnings = 0;
  const test::ScopedLogSink sink([&](std::string_view message) {
    if (message.find("nccl") != message.npos) ++num_warnings;
  });
  for (int step = 0; step < 2; ++step)
    strategy.run([](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f)); });
  REQUIRE(num_warnings == (TestBackend::device(0).kind() == DeviceKind::gpu ? 0 : 1));
}

TEST_CASE("abort fails waiting and later calls", "[collectives]") {
  Fixture f;
  std::atomic<int> aborted = 0;
  f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
    if (batch[0].rank == 0) return f.communicator().abort();
    try {
      f.communicator().all_reduce(ReduceOp::sum, batch);
    } catch (const CollectiveAborted&) {
      ++aborted;
    }
  });
  REQUIRE(aborted == 2);
  REQUIRE_THROWS_MATCHES(f.all_reduce(f.group.batches(f.views)), CollectiveAborted,
                         says("all_reduce(sum)", "abort"));
}

TEST_CASE("a moved-from communicator says so", "[collectives]") {
  Communicator communicator = Communicator::create(TestBackend::devices(2));
  Communicator moved = std::move(communicator);
  REQUIRE(moved.num_ranks() == 2);
  REQUIRE_THROWS_MATCHES(communicator.num_ranks(), ContextError, says("Communicator", "moved from"));
  communicator.abort();
  communicator = std::move(moved);
  REQUIRE(communicator.num_ranks() == 2);
}

TEST_CASE("a build without NCCL adopts no communicators", "[collectives]") {
  if (LOCKSTEP_HAS_NCCL) SKIP("built with NCCL");
  REQUIRE_THROWS_MATCHES(Communicator::adopt({}), Unsupported, says("LOCKSTEP_NCCL"));
}

TEST_CASE("P27 threads that drive all replicas take turns", "[collectives]") {
  CommunicatorGroup group(2);
  const int rounds = kSlowBuild ? 100 : 1000;
  std::atomic<int> wrong = 0;
  on_replicas(2, [&](int thread) {
    const auto size = static_cast<std::size_t>(thread == 0 ? 5 : 3000);
    const RankBuffers<float> inputs(
        group,
        std::vector<std::vector<float>>(2, std::vector<float>(size, 1.0f + static_cast<float>(thread))));
    const RankBuffers<float> outputs(group, std::vector<std::vector<float>>(2, std::vector<float>(size)));
    for (int round = 0; round < rounds; ++round) {
      group.communicator().all_reduce(ReduceOp::sum, inputs.views(), outputs.views(), group.streams());
      if (!outputs.all_are(std::vector<float>(size, 2.0f + 2 * static_cast<float>(thread)))) ++wrong;
    }
  });
  REQUIRE(wrong == 0);
}

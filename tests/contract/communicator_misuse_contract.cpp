#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/collective_fixture.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// How many of three threads, one for each rank, are refused by `Kind` with these parts in the message.
template <class Kind, class Call>
int num_refused(const Says& message, const Call& call) {
  std::atomic<int> refused = 0;
  on_replicas(3, [&](int rank) {
    try {
      call(rank);
    } catch (const Kind& error) {
      if (message.match(error)) ++refused;
    }
  });
  return refused;
}

}  // namespace

TEST_CASE("a second thread that drives a rank is refused, and the first one's call goes on",
          "[collectives]") {
  // The short one comes to the meeting with its rank, the long one stays where it is.
  const std::size_t size = GENERATE(5u, 5000u);
  CommunicatorGroup group(2);
  using Values = std::vector<float>;
  const RankBuffers<float> inputs(group, {Values(size, 1), Values(size, 2)});
  const RankBuffers<float> outputs(group, {Values(size, -1), Values(size, -1)});
  const GuardedBuffer<float> other_input(group.stream(1), Values(size, 4));
  const GuardedBuffer<float> other_output(group.stream(1), Values(size, -1));
  const std::vector<RankViews> views{{{inputs[0].view()}, {outputs[0].view()}},
                                     {{inputs[1].view()}, {outputs[1].view()}},
                                     {{other_input.view()}, {other_output.view()}}};
  std::atomic<int> refused_thread = 0;
  on_replicas(3, [&](int thread) {
    if (thread == 0) {
      while (refused_thread == 0) std::this_thread::yield();  // the other is there
    }
    const RankBatch batch = group.batch(thread == 0 ? 0 : 1, views[static_cast<std::size_t>(thread)]);
    try {
      group.communicator().all_reduce(ReduceOp::sum, std::span(&batch, 1));
    } catch (const ContextError& error) {
      if (says("two threads drive rank 1").match(error)) refused_thread = thread;
    }
  });
  for (const int rank : {0, 1}) group.stream(rank).synchronize();
  REQUIRE(refused_thread != 0);
  const bool first_is_in = refused_thread == 2;
  const Values untouched(size, -1), sums(size, first_is_in ? 3.0f : 5.0f);
  CHECK(outputs[0].values() == sums);
  CHECK(outputs[1].values() == (first_is_in ? sums : untouched));
  CHECK(other_output.values() == (first_is_in ? untouched : sums));
}

TEST_CASE("shapes and nests that read alike one after the other are told apart", "[collectives]") {
  CommunicatorGroup group(3);
  const RankBuffers<float> inputs(group, std::vector(3, std::vector<float>(126, 1)));
  const RankBuffers<float> outputs(group, std::vector(3, std::vector<float>(126, -1)));
  const auto view = [&](const RankBuffers<float>& buffers, int rank) {
    TensorView whole = buffers[rank].view();
    return TensorView(whole.data, rank == 1 ? Shape(3) : Shape(3, '*'), DType::f32, whole.device);
  };
  REQUIRE(num_refused<CollectiveMismatch>(says("differs from rank 0's"), [&](int rank) {
            const TensorView input = view(inputs, rank), output = view(outputs, rank);
            RankBatch batch{rank, group.stream(rank), {&input, 1}, {&output, 1}};
            if (rank == 1) batch.structure = "*";
            group.communicator().all_reduce(ReduceOp::sum, std::span(&batch, 1));
          }) == 3);
  REQUIRE(outputs.all_are(std::vector<float>(126, -1)));
}

TEST_CASE("a rank whose stream was moved from is refused on every rank", "[collectives]") {
  CollectiveFixture f;
  Stream stream(f.in(1).device);
  const Stream target = std::move(stream);
  REQUIRE(num_refused<ContextError>(says("Stream"), [&](int rank) {
            RankBatch batch = f.group.batch(rank, f.of(rank));
            if (rank == 1) batch.stream = stream;
            f.all_reduce(std::span(&batch, 1));
          }) == 3);
  f.recovers();
}

TEST_CASE("a check does not meet a reduction", "[collectives]") {
  CollectiveFixture f;
  REQUIRE(num_refused<CollectiveMismatch>(
              says(label(1, 1), "check_all_reduce differs from rank 0's all_reduce"), [&](int rank) {
                const RankBatch batch = f.group.batch(rank, f.of(rank));
                if (rank == 1)
                  f.communicator().check_all_reduce(ReduceOp::sum, std::span(&batch, 1));
                else
                  f.all_reduce(std::span(&batch, 1));
              }) == 3);
  REQUIRE(f.outputs.all_are(std::vector<float>(6, -1)));
  f.recovers();
  f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
    f.communicator().check_all_reduce(ReduceOp::sum, batch);
  });
}

#include <atomic>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/collective_fixture.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Fixture = CollectiveFixture;

// As the root of a gather and a scatter needs them: its output, or its input, alone.
void keep_outputs_of_root(Fixture& f) {
  for (const int rank : {0, 2}) f.of(rank).outputs = {};
}
void keep_inputs_of_root(Fixture& f) {
  for (const int rank : {0, 2}) f.of(rank).inputs = {};
}
TensorView floats(const TensorView& view, std::int64_t count, std::int64_t begin = 0) {
  return TensorView(static_cast<float*>(view.data) + begin, Shape(count), DType::f32, view.device);
}

}  // namespace

TEST_CASE("gather refuses what does not fit", "[collectives]") {
  Fixture f;
  keep_outputs_of_root(f);
  SECTION("a too small output") {
    f.refuses<InvalidArgument>(f.gather,
                               says("gather on " + label(1, 1), "the output is [6] float32",
                                    "where the input [6] float32 gives [18] float32. Pass such an output."));
  }
  SECTION("an output on another rank") {
    f.of(2).outputs = {f.outputs[2].view()};
    f.refuses<InvalidArgument>(
        f.gather, says("gather on " + label(2, 2), "outputs on a rank other than root 1, which only sends"));
  }
  SECTION("no output on the root") {
    f.of(1).outputs = {};
    f.refuses<InvalidArgument>(f.gather, says(label(1, 1), "1 inputs and 0 outputs"));
  }
  SECTION("shapes that differ beyond axis 0") {
    f.in(2) = TensorView(f.in(2).data, Shape(2, 3), DType::f32, f.in(2).device);
    f.refuses<CollectiveMismatch>(f.gather, says("gather on " + label(2, 2), "[2, 3] float32 differs from",
                                                 "Only the lengths of axis 0 may differ"));
  }
  SECTION("scalars") {
    for (int rank = 0; rank < 3; ++rank)
      f.in(rank) = TensorView(f.in(rank).data, Shape(), DType::f32, f.in(rank).device);
    f.refuses<InvalidArgument>(f.gather, says("gather", "no axis to gather along"));
  }
  SECTION("dtypes that differ") {
    f.in(0).dtype = DType::i32;
    f.refuses<CollectiveMismatch>(f.gather, says(label(0, 0), "int32 differs from rank 1's [6] float32"));
  }
  SECTION("another device's memory") {
    f.in(0).device = TestBackend::device(2);
    f.refuses<InvalidArgument>(f.gather, says(label(0, 0), "is on " + TestBackend::device(2).to_string()));
  }
  SECTION("P30 the root's input in another rank's part of its output") {
    for (int rank = 0; rank < 3; ++rank) f.in(rank) = floats(f.in(rank), 2);
    f.in(1) = floats(f.out(1), 2);
    f.refuses<InvalidArgument>(f.gather, says("gather", "overlaps", "of rank 1", "exactly in place"));
  }
  f.recovers();
}

TEST_CASE("scatter refuses what does not fit", "[collectives]") {
  Fixture f;
  keep_inputs_of_root(f);
  for (int rank = 0; rank < 3; ++rank) f.out(rank) = floats(f.out(rank), 2);
  SECTION("a too large output of the root") {
    f.out(1) = floats(f.out(1), 3);
    f.refuses<InvalidArgument>(
        f.scatter,
        says("scatter on " + label(1, 1),
             "the output is [3] float32, where the input [6] float32 gives [2] float32 (any shape"));
  }
  SECTION("a too small output of another rank") {
    f.out(2) = floats(f.out(2), 1);
    f.refuses<CollectiveMismatch>(
        f.scatter,
        says("scatter on " + label(2, 2),
             "the output is [1] float32, where rank 1's input [6] float32 gives [2] float32 (any shape"));
  }
  SECTION("another dtype") {
    f.out(0).dtype = DType::u32;
    f.refuses<CollectiveMismatch>(f.scatter, says(label(0, 0), "the output is [2] uint32", "rank 1's"));
  }
  SECTION("an input that does not divide") {
    f.in(1) = floats(f.in(1), 5);
    f.refuses<InvalidArgument>(f.scatter, says("[5] float32 does not divide into 3 equal parts"));
  }
  SECTION("an input on another rank") {
    f.of(0).inputs = {f.inputs[0].view()};
    f.refuses<InvalidArgument>(
        f.scatter, says("scatter on " + label(0, 0), "inputs on a rank other than root 1, which only"));
  }
  SECTION("no output on the root") {
    f.of(1).outputs = {};
    f.refuses<InvalidArgument>(f.scatter, says(label(1, 1), "1 inputs and 0 outputs"));
  }
  SECTION("a shorter batch on another rank") {
    f.of(2).outputs = {};
    f.refuses<CollectiveMismatch>(f.scatter, says(label(2, 2), "0 tensors differ from rank 1's 1"));
  }
  SECTION("a read-only output") {
    f.out(2).read_only = true;
    f.refuses<InvalidArgument>(f.scatter, says(label(2, 2), "read-only"));
  }
  SECTION("P30 the root's output in another rank's part of its input") {
    f.out(1) = floats(f.in(1), 2);
    f.refuses<InvalidArgument>(f.scatter, says("scatter", "overlaps", "exactly in place"));
  }
  f.recovers();
}

TEST_CASE("all_to_all refuses what does not fit", "[collectives]") {
  Fixture f;
  SECTION("shapes that differ") {
    f.in(2) = floats(f.in(2), 3);
    f.refuses<CollectiveMismatch>(
        f.all_to_all, says("all_to_all on " + label(2, 2), "[3] float32 differs from rank 0's [6] float32"));
  }
  SECTION("inputs that do not divide") {
    for (int rank = 0; rank < 3; ++rank) f.in(rank) = floats(f.in(rank), 5);
    f.refuses<InvalidArgument>(f.all_to_all, says("[5] float32 does not divide into 3 equal parts"));
  }
  SECTION("outputs of another size") {
    f.out(1) = floats(f.out(1), 2);
    f.refuses<InvalidArgument>(
        f.all_to_all, says(label(1, 1), "the output is [2] float32", "gives [6] float32 (any shape"));
  }
  SECTION("a strided input") {
    for (int rank = 0; rank < 3; ++rank) f.in(rank).shape = Shape(3), f.in(rank).strides[0] = 2;
    f.refuses<InvalidArgument>(f.all_to_all, says("all_to_all", "[3] float32 is strided"));
  }
  SECTION("P30 use in place") {
    f.out(1) = f.in(1);
    f.refuses<InvalidArgument>(f.all_to_all, says("all_to_all on rank", ": an", "overlaps", "of rank 1",
                                                  "this collective has no form in place"));
  }
  f.recovers();
}

TEST_CASE("send_recv refuses what does not fit", "[collectives]") {
  Fixture f;
  SECTION("too few destinations") {
    f.destinations = {1, 0};
    for (RankViews& views : f.views) views = {};
    f.refuses<InvalidArgument>(f.send_recv, says("send_recv on " + label(0, 0), "2 destinations for 3"));
  }
  SECTION("destinations that do not exist") {
    for (const int destination : {-2, 3}) {
      f.destinations = {1, destination, 0};
      f.refuses<InvalidArgument>(
          f.send_recv,
          says("send_recv",
               "destination " + std::to_string(destination) + " of rank 1 is not one of the 3 ranks", "-1"));
    }
  }
  SECTION("two that send to one") {
    f.destinations = {1, 0, 1};
    f.refuses<InvalidArgument>(f.send_recv, says("ranks 0 and 2 both send to rank 1"));
  }
  SECTION("destinations that differ") {
    const std::vector<int> other = {2, -1, 1};
    f.of(1).inputs = {};
    f.of(0).outputs = {};
    std::atomic<int> refused = 0;
    f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
      try {
        f.communicator().send_recv(batch[0].rank == 2 ? other : f.destinations, batch);
      } catch (const CollectiveMismatch& error) {
        if (says("send_recv on " + label(2, 2),
                 "destinations [2, -1, 1] differ from rank 0's [1, 2, 0]. Pass the same")
                .match(error))
          ++refused;
      }
    });
    REQUIRE(refused == 3);
  }
  SECTION("inputs where nothing is sent") {
    f.destinations = {1, 2, -1};
    f.of(0).outputs = {};
    f.refuses<InvalidArgument>(f.send_recv,
                               says("send_recv on " + label(2, 2), "inputs on a rank that sends to none"));
  }
  SECTION("outputs where nothing comes") {
    f.destinations = {1, 2, -1};
    f.of(2).inputs = {};
    f.refuses<InvalidArgument>(f.send_recv,
                               says("send_recv on " + label(0, 0), "outputs on a rank that none sends to"));
  }
  SECTION("no output where something comes") {
    f.of(2).outputs = {};
    f.refuses<InvalidArgument>(f.send_recv, says(label(2, 2), "1 inputs and 0 outputs"));
  }
  SECTION("batches of other lengths") {
    f.destinations = {1, -1, -1};
    f.of(0).outputs = f.of(1).inputs = f.of(2).inputs = f.of(2).outputs = {};
    f.of(1).outputs.push_back(f.out(1));
    f.refuses<CollectiveMismatch>(f.send_recv, says(label(1, 1), "2 tensors differ from rank 0's 1"));
  }
  SECTION("shapes of the two ranks of a transfer") {
    f.out(2) = floats(f.out(2), 5);
    f.refuses<CollectiveMismatch>(
        f.send_recv, says("send_recv on " + label(2, 2),
                          "the output is [5] float32, where rank 1's input [6] float32 gives [6] float32"));
  }
  SECTION("dtypes of the two ranks of a transfer") {
    f.in(2).dtype = DType::i32;
    f.refuses<CollectiveMismatch>(f.send_recv, says(label(0, 0), "rank 2's input [6] int32"));
  }
  SECTION("another shape from itself") {
    f.destinations = {0, 2, 1};
    f.out(0) = floats(f.out(0), 5);
    f.refuses<InvalidArgument>(f.send_recv, says(label(0, 0), "the output is [5] float32", "the input [6]"));
  }
  SECTION("no memory") {
    f.in(1).data = nullptr;
    f.refuses<InvalidArgument>(f.send_recv, says(label(1, 1), "[6] float32 has no memory"));
  }
  SECTION("P30 use in place") {
    f.out(1) = f.in(1);
    f.refuses<InvalidArgument>(f.send_recv, says("send_recv", "overlaps", "no form in place"));
  }
  f.recovers();
}

TEST_CASE("gather and scatter refuse roots that do not exist, or differ", "[collectives]") {
  Fixture f;
  for (const int root : {-1, 3}) {
    const std::string refusal = "root " + std::to_string(root) + " is not one of the 3 ranks";
    f.refuses<InvalidArgument>([&](auto batches) { f.communicator().gather(root, batches); },
                               says("gather on", refusal));
    f.refuses<InvalidArgument>([&](auto batches) { f.communicator().scatter(root, batches); },
                               says("scatter on", refusal));
    REQUIRE_THROWS_MATCHES(
        f.communicator().gather(f.inputs.views(), f.outputs[0].view(), root, f.group.streams()),
        InvalidArgument, says(refusal));
    REQUIRE_THROWS_MATCHES(
        f.communicator().scatter(f.inputs[0].view(), f.outputs.views(), root, f.group.streams()),
        InvalidArgument, says(refusal));
  }
  std::atomic<int> refused = 0;
  f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
    try {
      f.communicator().gather(batch[0].rank, batch);
    } catch (const CollectiveMismatch& error) {
      if (says("gather on " + label(1, 1), "root 1 differs from rank 0's 0").match(error)) ++refused;
    }
  });
  REQUIRE(refused == 3);
  f.recovers();
}

TEST_CASE("transfers of one tensor for each rank need one of each", "[collectives]") {
  Fixture f;
  const std::vector<TensorView> two = {f.in(0), f.in(1)};
  const auto& streams = f.group.streams();
  const auto outputs = f.outputs.views();
  REQUIRE_THROWS_MATCHES(f.communicator().all_to_all(two, outputs, streams), InvalidArgument,
                         says("all_to_all: 2 inputs, 3 outputs and 3 streams for 3 ranks"));
  REQUIRE_THROWS_MATCHES(f.communicator().gather(two, f.out(0), 0, streams), InvalidArgument,
                         says("gather: 2 inputs"));
  REQUIRE_THROWS_MATCHES(f.communicator().scatter(f.in(0), two, 0, streams), InvalidArgument,
                         says("scatter: 1 inputs, 2 outputs"));
  REQUIRE_THROWS_MATCHES(f.communicator().send_recv(f.destinations, two, outputs, streams), InvalidArgument,
                         says("send_recv: 2 inputs"));
  f.destinations.pop_back();
  REQUIRE_THROWS_MATCHES(f.communicator().send_recv(f.destinations, f.inputs.views(), outputs, streams),
                         InvalidArgument, says("2 destinations for 3"));
  f.recovers();
}

TEST_CASE("P31 no elements and no tensors are nothing to transfer", "[collectives]") {
  const int n = GENERATE(1, 3);
  const Drive drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  CommunicatorGroup group(n);
  Communicator& communicator = group.communicator();
  std::vector<RankViews> all, from_root, to_root, none(static_cast<std::size_t>(n));
  std::vector<int> ring;
  for (int rank = 0; rank < n; ++rank) {
    const TensorView nothing(static_cast<void*>(nullptr), Shape(0, 3), DType::f32,
                             group.stream(rank).device());
    all.push_back({{nothing}, {nothing}});
    from_root.push_back(rank == 0 ? all.back() : RankViews{{}, {nothing}});
    to_root.push_back(rank == 0 ? all.back() : RankViews{{nothing}, {}});
    ring.push_back((rank + 1) % n);
  }
  for (const bool empty_batch : {false, true}) {
    const auto run = [&](const std::vector<RankViews>& views, const auto& collective) {
      group.run(drive, empty_batch ? none : views, collective);
    };
    run(to_root, [&](auto batches) { communicator.gather(0, batches); });
    run(from_root, [&](auto batches) { communicator.scatter(0, batches); });
    run(all, [&](auto batches) { communicator.all_to_all(batches); });
    run(all, [&](auto batches) { communicator.send_recv(ring, batches); });
  }
}

#include <atomic>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/collective_fixture.hpp"
#include "support/replica_values.hpp"

using namespace lockstep;
using namespace lockstep::test;
using namespace std::chrono_literals;

namespace {

using Fixture = CollectiveFixture;

}  // namespace

TEST_CASE("P23 replicas that disagree are told both shapes, dtypes, roots or batches", "[collectives]") {
  Fixture f;
  SECTION("shapes") {
    f.in(2).shape = f.out(2).shape = Shape(2, 3);
    f.in(2).strides = f.out(2).strides = Shape(2, 3).contiguous_strides();
    f.refuses<CollectiveMismatch>(
        f.all_reduce,
        says("all_reduce(sum) on " + label(2, 2) +
             ": shape [2, 3] float32 differs from rank 0's [6] float32. Pass equal shapes on every "
             "rank, or use all_gather for ragged values."));
  }
  SECTION("lengths") {
    f.in(1) = TensorView(f.in(1).data, Shape(3), DType::f32, f.in(1).device);
    f.refuses<CollectiveMismatch>(f.reduce_scatter, says("reduce_scatter(sum) on " + label(1, 1),
                                                         "[3] float32 differs from rank 0's [6] float32"));
  }
  SECTION("dtypes") {
    f.in(1).dtype = DType::i32;
    for (const auto& call : {f.all_reduce, f.all_gather})
      f.refuses<CollectiveMismatch>(
          call,
          says(label(1, 1) + ": dtype of [6] int32 differs from rank 0's [6] float32. Pass equal dtypes "
                             "on every rank."));
  }
  SECTION("shapes and dtypes") {
    f.in(1) = TensorView(f.in(1).data, Shape(3), DType::i32, f.in(1).device);
    f.refuses<CollectiveMismatch>(f.all_reduce,
                                  says(label(1, 1) + ": shape [3] int32 differs from rank 0's [6] float32. "
                                                     "Pass equal shapes and dtypes on every rank."));
  }
  SECTION("of a broadcast, against the root's") {
    for (const int rank : {0, 2}) f.of(rank).inputs = {};
    f.out(2).dtype = DType::i32;
    f.refuses<CollectiveMismatch>(
        f.broadcast, says("broadcast on " + label(2, 2), "int32 differs from rank 1's [6] float32"));
  }
  SECTION("of an all_gather, beyond axis 0") {
    f.in(2) = TensorView(f.in(2).data, Shape(2, 3), DType::f32, f.in(2).device);
    f.refuses<CollectiveMismatch>(f.all_gather,
                                  says("all_gather on " + label(2, 2), "[2, 3]", "[6]", "axis 0"));
  }
  SECTION("batches") {
    f.of(1).inputs.push_back(f.in(1));
    f.of(1).outputs.push_back(f.out(1));
    f.refuses<CollectiveMismatch>(f.all_reduce, says(label(1, 1), "2 tensors differ from rank 0's 1"));
  }
  SECTION("a tensor of a batch") {
    for (int rank = 0; rank < 3; ++rank) {
      f.of(rank).inputs.push_back(
          TensorView(f.in(rank).data, Shape(rank == 2 ? 1 : 2), DType::f32, f.in(rank).device));
      f.of(rank).outputs.push_back(
          TensorView(static_cast<void*>(nullptr), Shape(2), DType::f32, f.in(rank).device));
    }
    f.refuses<CollectiveMismatch>(f.all_reduce, says(label(2, 2) + ": tensor 1 of 2: shape [1]", "[2]"));
  }
  SECTION("roots") {
    for (const int rank : {1, 2}) f.of(rank).inputs = {};
    std::atomic<int> refused = 0;
    f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
      try {
        f.communicator().broadcast(batch[0].rank == 2 ? 1 : 0, batch);
      } catch (const CollectiveMismatch& error) {
        if (says("broadcast on " + label(2, 2), "root 1 differs from rank 0's 0").match(error)) ++refused;
      }
    });
    REQUIRE(refused == 3);
  }
  SECTION("options") {
    std::atomic<int> refused = 0;
    f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
      try {
        f.communicator().all_reduce(ReduceOp::sum, batch, {.deterministic = batch[0].rank == 2});
      } catch (const CollectiveMismatch& error) {
        if (says(label(2, 2), "deterministic = true differs from rank 0's false").match(error)) ++refused;
      }
    });
    REQUIRE(refused == 3);
  }
  SECTION("paths") {
    std::atomic<int> refused = 0;
    f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
      try {
        f.communicator().all_reduce(ReduceOp::sum, batch, {.peer_bytes = batch[0].rank == 2 ? 8 : 0});
      } catch (const CollectiveMismatch& error) {
        if (says(label(2, 2), "peer_bytes 8 differ from rank 0's").match(error)) ++refused;
      }
    });
    REQUIRE(refused == 3);
  }
  SECTION("operations") {
    std::atomic<int> refused = 0;
    f.group.run(Drive::thread_per_replica, f.views, [&](std::span<const RankBatch> batch) {
      const ReduceOp op = batch[0].rank == 1 ? ReduceOp::max : ReduceOp::sum;
      try {
        f.communicator().all_reduce(op, batch);
      } catch (const CollectiveMismatch& error) {
        if (says("all_reduce(max), call 0: " + label(1, 1) + " calls it where " + label(0, 0) +
                 " calls all_reduce(sum)")
                .match(error))
          ++refused;
      }
    });
    REQUIRE(refused == 3);
  }
  f.recovers();
}

TEST_CASE("a mismatch can be read by programs", "[collectives]") {
  Fixture f;
  f.in(1).dtype = DType::i32;
  try {
    f.all_reduce(f.group.batches(f.views));
    FAIL("not refused");
  } catch (const CollectiveMismatch& error) {
    REQUIRE(error.context().operation == "all_reduce");
    REQUIRE(error.context().replica == 1);
    REQUIRE(error.context().device == TestBackend::device(1).to_string());
    REQUIRE(error.context().operands == "[6] int32, [6] float32");
    REQUIRE(error.context().hint == "Pass equal dtypes on every rank.");
  }
}

TEST_CASE("an error of a rank names it for programs", "[collectives]") {
  Fixture f;
  SECTION("no memory") { f.in(1).data = nullptr; }
  SECTION("another device's memory") { f.out(1).device = TestBackend::device(2); }
  SECTION("an output of another dtype") { f.out(1).dtype = DType::i32; }
  SECTION("memory that another uses") {
    f.in(1).data = static_cast<std::byte*>(f.in(0).data) + 4;
    f.out(1).data = static_cast<std::byte*>(f.out(0).data) + 4;
  }
  std::vector<RankBatch> batches = f.group.batches(f.views);
  SECTION("named twice") { batches[2].rank = 1; }
  try {
    f.all_reduce(batches);
    FAIL("not refused");
  } catch (const InvalidArgument& error) {
    CAPTURE(error.what());
    CHECK(error.context().operation == "all_reduce");
    CHECK(error.context().replica == 1);
    CHECK_FALSE(error.context().hint.empty());
  }
}

TEST_CASE("a collective refuses buffers that it cannot use", "[collectives]") {
  Fixture f;
  SECTION("booleans") {
    for (int rank = 0; rank < 3; ++rank) f.in(rank).dtype = f.out(rank).dtype = DType::boolean;
    f.refuses<InvalidArgument>(f.all_reduce, says("all_reduce(sum)", "[6] bool cannot be reduced", "Cast"));
  }
  SECTION("another device's memory") {
    f.out(1).device = TestBackend::device(2);
    f.refuses<InvalidArgument>(f.all_reduce,
                               says(label(1, 1), "is on " + TestBackend::device(2).to_string()));
  }
  SECTION("P28 strided views") {
    for (int rank = 0; rank < 3; ++rank) {
      for (TensorView* view : {&f.in(rank), &f.out(rank)}) view->shape = Shape(3), view->strides[0] = 2;
    }
    f.refuses<InvalidArgument>(f.all_reduce, says("[3] float32 is strided", "Copy it"));
    for (const int rank : {0, 2}) f.of(rank).inputs = {};
    f.refuses<InvalidArgument>(f.broadcast, says("broadcast", "[3] float32 is strided"));
  }
  SECTION("no memory") {
    f.in(1).data = nullptr;
    f.refuses<InvalidArgument>(f.all_reduce, says(label(1, 1), "[6] float32 has no memory. Pass"));
  }
  SECTION("read-only outputs") {
    f.out(2).read_only = true;
    f.refuses<InvalidArgument>(f.all_reduce,
                               says(label(2, 2), "read-only. Pass memory that may be written."));
  }
  SECTION("outputs of another shape") {
    f.out(2) = TensorView(f.out(2).data, Shape(5), DType::f32, f.out(2).device);
    f.refuses<InvalidArgument>(f.all_reduce,
                               says(label(2, 2), "the output is [5] float32", "gives [6] float32"));
  }
  SECTION("outputs of another dtype") {
    f.out(2).dtype = DType::i32;
    f.refuses<InvalidArgument>(f.all_reduce, says("the output is [6] int32", "gives [6] float32"));
  }
  SECTION("integer outputs of an integer mean") {
    for (int rank = 0; rank < 3; ++rank) f.in(rank).dtype = f.out(rank).dtype = DType::i32;
    f.refuses<InvalidArgument>([&](auto batches) { f.communicator().all_reduce(ReduceOp::mean, batches); },
                               says("the output is [6] int32", "gives [6] float64"));
  }
  SECTION("too small outputs of an all_gather") {
    f.refuses<InvalidArgument>(f.all_gather, says("the output is [6] float32", "gives [18] float32"));
  }
  SECTION("scalars in an all_gather") {
    for (int rank = 0; rank < 3; ++rank)
      f.in(rank) = TensorView(f.in(rank).data, Shape(), DType::f32, f.in(rank).device);
    f.refuses<InvalidArgument>(f.all_gather, says("no axis to gather along"));
  }
  SECTION("a reduce_scatter that does not divide") {
    for (int rank = 0; rank < 3; ++rank)
      f.in(rank) = TensorView(f.in(rank).data, Shape(5), DType::f32, f.in(rank).device);
    f.refuses<InvalidArgument>(f.reduce_scatter, says("[5] float32 does not divide into 3 equal parts"));
  }
  SECTION("too large outputs of a reduce_scatter") {
    f.refuses<InvalidArgument>(f.reduce_scatter,
                               says("the output is [6] float32", "gives [2] float32", "any shape"));
  }
  f.recovers();
}

TEST_CASE("P30 buffers that overlap are refused, but for exact in-place use", "[collectives]") {
  Fixture f;
  const auto shifted = [](const TensorView& view, std::int64_t elements) {
    TensorView result = view;
    result.data = static_cast<float*>(view.data) + elements;
    return result;
  };
  SECTION("an output partly in its input") {
    f.out(1) = shifted(f.in(1), 1);
    f.refuses<InvalidArgument>(f.all_reduce,
                               says("all_reduce(sum)", "overlaps", "of rank 1", "exactly in place"));
  }
  SECTION("a batch's outputs in each other") {
    for (int rank = 0; rank < 3; ++rank) {
      f.of(rank).inputs.push_back(f.in(rank));  // reading twice is fine
      f.of(rank).outputs.push_back(rank == 2 ? shifted(f.out(2), -5) : f.in(rank));
      if (rank < 2) f.of(rank).inputs[0] = f.of(rank).outputs[0], f.of(rank).outputs[0] = f.out(rank);
    }
    f.refuses<InvalidArgument>(f.all_reduce, says("overlaps"));
  }
  SECTION("a reduce_scatter into the first part of another rank's") {
    for (int rank = 0; rank < 3; ++rank)
      f.out(rank) = TensorView(f.in(rank).data, Shape(2), DType::f32, f.in(rank).device);
    f.refuses<InvalidArgument>(f.reduce_scatter, says("reduce_scatter(sum)", "overlaps"));
  }
  f.recovers();
}

TEST_CASE("batches and roots that make no sense are refused", "[collectives]") {
  Fixture f;
  SECTION("a root that does not exist") {
    for (const int root : {-1, 3}) {
      f.refuses<InvalidArgument>(
          [&](auto batches) { f.communicator().reduce(ReduceOp::sum, root, batches); },
          says("reduce(sum)", "root " + std::to_string(root) + " is not one of the 3 ranks"));
    }
  }
  SECTION("inputs where a broadcast only receives") {
    f.refuses<InvalidArgument>(f.broadcast,
                               says("broadcast on " + label(0, 0), "inputs on a rank other than root 1"));
  }
  SECTION("outputs where a reduce only sends") {
    f.refuses<InvalidArgument>(f.reduce,
                               says("reduce(sum) on " + label(0, 0), "outputs on a rank other than root 1"));
  }
  SECTION("fewer outputs than inputs") {
    f.of(1).outputs = {};
    f.refuses<InvalidArgument>(f.all_reduce, says(label(1, 1), "1 inputs and 0 outputs"));
  }
  SECTION("another device's stream") {
    std::vector<RankBatch> batches = f.group.batches(f.views);
    batches[1].stream = f.group.stream(0);
    REQUIRE_THROWS_MATCHES(f.all_reduce(batches), InvalidArgument,
                           says(label(1, 1), "the stream is on " + TestBackend::device(0).to_string()));
  }
  SECTION("ranks that do not exist, or twice, or none") {
    std::vector<RankBatch> batches = f.group.batches(f.views);
    batches[2].rank = 3;
    REQUIRE_THROWS_MATCHES(f.all_reduce(batches), InvalidArgument,
                           says("rank 3 is not one of the 3 ranks. Pass one from 0 to 2."));
    batches[2].rank = 0;
    REQUIRE_THROWS_MATCHES(f.all_reduce(batches), InvalidArgument,
                           says("rank 0 is named twice. Pass one batch for each rank."));
    REQUIRE_THROWS_MATCHES(f.all_reduce({}), InvalidArgument,
                           says("all_reduce(sum): no rank is named. Pass a batch for each"));
  }
  SECTION("too few tensors") {
    const std::vector<TensorView> two = {f.in(0), f.in(1)};
    REQUIRE_THROWS_MATCHES(
        f.communicator().all_reduce(ReduceOp::sum, two, f.outputs.views(), f.group.streams()),
        InvalidArgument, says("2 inputs, 3 outputs and 3 streams for 3 ranks"));
  }
  SECTION("a negative time limit") {
    REQUIRE_THROWS_AS(f.communicator().all_reduce(ReduceOp::sum, f.group.batches(f.views), {.timeout = -1ms}),
                      InvalidArgument);
  }
  f.recovers();
}

TEST_CASE("check_all_reduce checks as all_reduce does and writes nothing", "[collectives]") {
  Fixture f;
  const Fixture::Collective check = [&](auto batches) {
    f.communicator().check_all_reduce(ReduceOp::sum, batches);
  };
  f.group.run(Drive::thread_per_replica, f.views, check);
  f.group.run(Drive::one_thread, f.views, check);
  REQUIRE(f.outputs.all_are(std::vector<float>(6, -1)));
  f.in(1).dtype = DType::i32;
  f.refuses<CollectiveMismatch>(check, says("all_reduce(sum)", "int32"));
  f.recovers();
}

TEST_CASE("P31 no elements are nothing to do", "[collectives]") {
  const int n = GENERATE(1, 2, 3);
  const Drive drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  CommunicatorGroup group(n);
  std::vector<RankViews> views, rows;
  for (int rank = 0; rank < n; ++rank) {
    const auto nothing = [&](const Shape& shape) {
      return TensorView(static_cast<void*>(nullptr), shape, DType::f32, group.stream(rank).device());
    };
    views.push_back(
        {{nothing(Shape(1, 0, 2)), nothing(Shape(0))}, {nothing(Shape(1, 0, 2)), nothing(Shape(0))}});
    rows.push_back({{nothing(Shape(0, 3))}, {nothing(Shape(0, 3))}});
  }
  group.run(drive, views, [&](auto batches) { group.communicator().all_reduce(ReduceOp::mean, batches); });
  group.run(drive, rows, [&](auto batches) { group.communicator().all_gather(batches); });
  group.run(drive, views, [&](auto batches) { group.communicator().reduce_scatter(ReduceOp::sum, batches); });
  for (auto& of_rank : views) {
    for (auto* tensors : {&of_rank.inputs, &of_rank.outputs}) {
      for (TensorView& view : *tensors) view.dtype = DType::i32;
    }
    for (TensorView& view : of_rank.outputs) view.dtype = DType::f64;
  }
  group.run(drive, views, [&](auto batches) { group.communicator().all_reduce(ReduceOp::mean, batches); });
  group.run(drive, views,
            [&](auto batches) { group.communicator().reduce_scatter(ReduceOp::mean, batches); });
  // No tensors at all.
  group.run(drive, std::vector<RankViews>(static_cast<std::size_t>(n)),
            [&](auto batches) { group.communicator().all_reduce(ReduceOp::sum, batches); });
}

TEST_CASE("P36 roots are replica indices, and a device is listed once", "[collectives]") {
  CommunicatorGroup group({TestBackend::device(2), TestBackend::device(3)});
  const RankBuffers<float> values(group, {{0}, {10}});
  const RankBuffers<float> result(group, {{-1}, {-1}});
  group.communicator().reduce(ReduceOp::sum, values.views(), result[1].view(), 1, group.streams());
  REQUIRE(result[1].values()[0] == 10);
  REQUIRE(values[0].values()[0] == 0);
  group.communicator().broadcast(values[1].view(), result.views(), 1, group.streams());
  REQUIRE(result.all_are({10}));
  REQUIRE_THROWS_MATCHES(group.communicator().broadcast(values[1].view(), result.views(), 3, group.streams()),
                         InvalidArgument, says("root 3 is not one of the 2 ranks", "Roots are rank indices"));

  const Device device = TestBackend::device(1);
  REQUIRE_THROWS_MATCHES(Communicator::create({device, TestBackend::device(0), device}), InvalidArgument,
                         says(device.to_string() + " is listed twice"));
  REQUIRE_THROWS_MATCHES(Communicator::create({}), InvalidArgument, says("no devices"));
  const Device other(TestBackend::kind() == DeviceKind::cpu ? DeviceKind::gpu : DeviceKind::cpu, 0);
  REQUIRE_THROWS_MATCHES(Communicator::create({device, other}), InvalidArgument,
                         says(device.to_string(), other.to_string(), "two kinds"));
}

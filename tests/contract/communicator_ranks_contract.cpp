// Collectives of one tensor, called by each rank's thread.
#include <array>
#include <span>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/communicator_group.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Values = std::vector<float>;

// Of rank r the inputs are 3r, 3r + 1, 3r + 2.
struct RanksFixture {
  CommunicatorGroup group{3};
  RankBuffers<float> inputs{group, {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}};

  /// What `call(rank, stream, input, output)` leaves in the outputs, of `num_outputs` elements each.
  template <class F>
  std::vector<Values> outputs_of(std::size_t num_outputs, const F& call) {
    const RankBuffers<float> outputs(group, std::vector(3, Values(num_outputs, -1)));
    on_replicas(3, [&](int rank) {
      call(group.communicator(), rank, inputs[rank].view(), outputs[rank].view(), group.stream(rank));
    });
    std::vector<Values> values;
    for (int rank = 0; rank < 3; ++rank) {
      group.stream(rank).synchronize();
      values.push_back(outputs[rank].values());
    }
    REQUIRE(outputs.guards_intact());
    return values;
  }
};

const Values kNothing3(3, -1), kNothing9(9, -1), kNothing1(1, -1);
const Values kAll = {0, 1, 2, 3, 4, 5, 6, 7, 8};

// A view of nothing, where a rank has no tensor.
const TensorView kNone(static_cast<void*>(nullptr), Shape(7, 7), DType::boolean);

}  // namespace

TEST_CASE("each rank's thread makes collectives of one tensor", "[collectives]") {
  RanksFixture f;
  SECTION("all_reduce") {
    CHECK(f.outputs_of(3, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) { c.all_reduce(ReduceOp::max, rank, in, out, stream); }) ==
          std::vector<Values>(3, {6, 7, 8}));
  }
  SECTION("reduce") {
    CHECK(f.outputs_of(3, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) {
      c.reduce(ReduceOp::sum, 1, rank, in, rank == 1 ? out : kNone, stream);
    }) == std::vector<Values>{kNothing3, {9, 12, 15}, kNothing3});
  }
  SECTION("broadcast") {
    CHECK(f.outputs_of(3, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) {
      c.broadcast(2, rank, rank == 2 ? in : kNone, out, stream);
    }) == std::vector<Values>(3, {6, 7, 8}));
  }
  SECTION("all_gather") {
    CHECK(f.outputs_of(9, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) { c.all_gather(rank, in, out, stream); }) ==
          std::vector<Values>(3, kAll));
  }
  SECTION("reduce_scatter") {
    CHECK(f.outputs_of(1, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) { c.reduce_scatter(ReduceOp::sum, rank, in, out, stream); }) ==
          std::vector<Values>{{9}, {12}, {15}});
  }
  SECTION("gather") {
    CHECK(f.outputs_of(9, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) { c.gather(0, rank, in, rank == 0 ? out : kNone, stream); }) ==
          std::vector<Values>{kAll, kNothing9, kNothing9});
  }
  SECTION("scatter") {
    CHECK(f.outputs_of(1, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) {
      c.scatter(1, rank, rank == 1 ? in : kNone, out, stream);
    }) == std::vector<Values>{{3}, {4}, {5}});
  }
  SECTION("all_to_all") {
    CHECK(f.outputs_of(3, [](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                             StreamRef stream) { c.all_to_all(rank, in, out, stream); }) ==
          std::vector<Values>{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}});
  }
  SECTION("send_recv") {
    const std::vector<int> destinations = {1, -1, 0};
    CHECK(f.outputs_of(3, [&](Communicator& c, int rank, const TensorView& in, const TensorView& out,
                              StreamRef stream) {
      c.send_recv(destinations, rank, rank == 1 ? kNone : in, rank == 2 ? kNone : out, stream);
    }) == std::vector<Values>{{6, 7, 8}, {0, 1, 2}, kNothing3});
  }
}

TEST_CASE("a rank's collective of one tensor is checked as a batch is", "[collectives]") {
  RanksFixture f;
  const TensorView in = f.inputs[0].view();
  Communicator& c = f.group.communicator();
  CHECK_THROWS_MATCHES(c.all_reduce(ReduceOp::sum, 3, in, in, f.group.stream(0)), InvalidArgument,
                       says("all_reduce(sum)", "3"));
  CHECK_THROWS_MATCHES(c.send_recv(std::vector<int>{0, 1, 2}, -1, in, in, f.group.stream(0)), InvalidArgument,
                       says("send_recv", "-1"));
}

TEST_CASE("lists of views that end before the call do not compile", "[collectives]") {
  using List = std::vector<TensorView>;
  using Views = detail::BorrowedSpan<TensorView>;
  STATIC_REQUIRE(std::is_convertible_v<const List&, Views>);
  STATIC_REQUIRE(std::is_convertible_v<List&, Views>);
  STATIC_REQUIRE(std::is_convertible_v<std::span<const TensorView>, Views>);
  STATIC_REQUIRE(std::is_convertible_v<std::array<TensorView, 2>&, Views>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<List, Views>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<const List, Views>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<std::array<TensorView, 2>, Views>);
}

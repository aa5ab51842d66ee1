#include "trace/call_group.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>

namespace lockstep::detail {

namespace {

/// A rank's call of one tensor of float32.
void call(CallGroup& group, int rank, std::uint64_t number, std::string_view operation, const Shape& shape,
          std::string_view label = {}) {
  const TensorView tensor(static_cast<void*>(nullptr), shape, DType::f32);
  group[rank].begin(number, number, operation, {&tensor, 1}, label, false);
}

CallGroup make_group() { return CallGroup({"rank 0 (CPU:0)", "rank 1 (CPU:1)", "rank 2 (CPU:2)"}, "rank"); }

}  // namespace

TEST_CASE("the first call in which ranks differ is named", "[trace][host]") {
  CallGroup group = make_group();
  const auto all = [&](std::uint64_t number, std::string_view operation) {
    for (int rank = 0; rank < 3; ++rank) call(group, rank, number, operation, {4});
  };
  all(0, "all_reduce(sum)");
  CHECK(group.difference().text.empty());
  SECTION("another operation") {
    call(group, 0, 1, "all_reduce(sum)", {4});
    call(group, 1, 1, "all_reduce(sum)", {4});
    call(group, 2, 1, "broadcast", {4});
    all(2, "all_reduce(sum)");
    CHECK(group.difference().text ==
          "call 1: rank 2 (CPU:2): broadcast of [4] float32; rank 0 (CPU:0): all_reduce(sum) of [4] float32");
  }
  SECTION("another name") {
    call(group, 0, 1, "all_reduce(sum)", {4}, "grad/3");
    call(group, 1, 1, "all_reduce(sum)", {4}, "grad/4");
    CHECK(group.difference().text ==
          "call 1: rank 1 (CPU:1): all_reduce(sum) of [4] float32, 'grad/4'; "
          "rank 0 (CPU:0): all_reduce(sum) of [4] float32, 'grad/3'");
    CHECK(group.difference().has_names);
    CHECK(group.difference(1).is_newest);
    CHECK(group.difference(2).text.empty());
    group[0].set_state(CallState::failed);
    CHECK(group.difference(1).text.empty());
    CHECK_FALSE(group.difference().text.empty());
  }
  SECTION("another shape, where it matters") {
    for (int rank = 0; rank < 3; ++rank) call(group, rank, 1, "all_gather", {rank});
    CHECK(group.difference().text.empty());
    for (int rank = 0; rank < 3; ++rank) call(group, rank, 2, "reduce(max)", {4, rank / 2});
    CHECK(group.difference().text ==
          "call 2: rank 2 (CPU:2): reduce(max) of [4, 1] float32; rank 0 (CPU:0): reduce(max) of [4, 0] "
          "float32");
  }
}

TEST_CASE("a report says for whom the others wait", "[trace][host]") {
  CallGroup group = make_group();
  for (int rank = 0; rank < 3; ++rank) {
    call(group, rank, 0, "broadcast", {2});
    group[rank].end(false);
  }
  const auto missing = [&] {
    std::string ranks;
    for (const RankReport& rank : group.report("g", 4).ranks)
      if (rank.is_missing) ranks += std::to_string(rank.rank);
    return ranks;
  };
  CHECK(missing().empty());
  call(group, 1, 1, "all_reduce(sum)", {2});
  CHECK(missing() == "46");
  call(group, 0, 1, "all_reduce(sum)", {2});
  CHECK(missing() == "6");
  group[0].end(/*has_thrown=*/true);
  group[1].end(/*has_thrown=*/true);
  CHECK(missing() == "6");
  CHECK(group.last_call(2) == "whose last call was call 0, broadcast of [2] float32");
  CHECK(group.calls(1).size() == 2);
  CHECK(group.calls(1).back().state == CallState::failed);
}

TEST_CASE("a report says whose device the others wait for", "[trace][host]") {
  CallGroup group = make_group();
  for (int rank = 0; rank < 3; ++rank) {
    group[rank].begin(0, 0, "all_reduce(sum)", {}, {}, /*enqueues=*/true);
    group[rank].end(false);
    if (rank != 1) group[rank].set_begun_on_device(1);
  }
  const GroupReport report = group.report({}, 0);
  CHECK(report.name == "group " + std::to_string(group.number()) + " of 3 ranks");
  CHECK_FALSE(report.ranks[0].is_missing);
  CHECK(report.ranks[1].is_missing);
  CHECK(report.ranks[0].calls.back().state == CallState::running);
}

TEST_CASE("a group of which no call is known", "[trace][host]") {
  const CallGroup group({"rank 0 (CPU:0)"}, "rank");
  CHECK(group.difference().text.empty());
  CHECK(group.calls(0).empty());
  CHECK(group.last_call(0) == "which has made no call");
  CHECK(group.report({}, 0).name.ends_with(" of 1 rank"));
}

TEST_CASE("the process knows the groups that live", "[trace][host]") {
  const auto is_known = [](std::uint64_t number) {
    bool found = false;
    CallGroup::for_each([&](const CallGroup& group) { found |= group.number() == number; });
    return found;
  };
  std::uint64_t number = 0;
  {
    const CallGroup group({"rank 0 (CPU:0)"}, "rank");
    number = group.number();
    CHECK(is_known(number));
  }
  CHECK_FALSE(is_known(number));
}

}  // namespace lockstep::detail

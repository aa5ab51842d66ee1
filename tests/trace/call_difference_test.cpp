#include "trace/call_difference.hpp"

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

namespace {

ReportedCall call(std::uint64_t number, const std::string& operation, const std::string& operands,
                  const std::string& label = {}) {
  return {.number = number, .call = number, .operation = operation, .operands = operands, .label = label};
}

CallDifference difference(std::vector<ReportedCall> a, std::vector<ReportedCall> b) {
  return CallHistory::difference("a", CallHistory(CallHistory::text("1", std::move(a))), "b",
                                 CallHistory(CallHistory::text("1", std::move(b))));
}

std::exception_ptr mismatch(const std::string& message) {
  try {
    raise<CollectiveMismatch>({__FILE__, __LINE__, __func__}, message);
  } catch (...) {
    return std::current_exception();
  }
}

template <class E>
std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const E& thrown) {
    return thrown.what();
  } catch (const std::exception& other) {
    return std::string("another type: ") + other.what();
  }
}

}  // namespace

TEST_CASE("the first of two histories' calls that differs is told", "[trace][host]") {
  const ReportedCall all = call(3, "all_reduce(sum)", "[4] float32");
  CHECK(difference({all, all}, {all, all}).text.empty());
  SECTION("an earlier one, where one history goes further back") {
    const auto at = [](std::uint64_t number, const char* label) {
      return call(number, "all_reduce(sum)", "[4] float32", label);
    };
    const CallDifference found =
        difference({at(3, ""), at(4, "x"), at(5, "")}, {at(2, ""), at(3, ""), at(4, "y"), at(5, "")});
    CHECK(found.text ==
          "call 4: a: all_reduce(sum) of [4] float32, 'x'; b: all_reduce(sum) of [4] float32, 'y'");
    CHECK_FALSE(found.is_newest);
    CHECK(found.has_names);
  }
  SECTION("but not one of an earlier run") {
    CHECK(difference({call(8, "broadcast", ""), all}, {call(8, "all_gather", ""), all}).text.empty());
  }
  SECTION("the newest one") {
    const CallDifference found = difference({all, call(4, "broadcast", "[1] float32")},
                                            {all, call(4, "all_reduce(sum)", "[4] float32")});
    CHECK(found.text == "call 4: a: broadcast of [1] float32; b: all_reduce(sum) of [4] float32");
    CHECK(found.is_newest);
    CHECK_FALSE(found.has_names);
  }
  SECTION("but not by shapes that may differ, nor by calls that have failed, which one may not have made") {
    CHECK(difference({call(0, "all_gather", "[1] float32")}, {call(0, "all_gather", "[2] float32")})
              .text.empty());
    ReportedCall failed = call(4, "broadcast", "[9] float32");
    failed.state = CallState::failed;
    const ReportedCall next = call(5, "broadcast", "[4] float32");
    CHECK(difference({all, failed, next}, {all, next}).text.empty());
    CHECK(difference({all, failed}, {all, call(4, "broadcast", "[8] float32")}).is_newest);
  }
}

TEST_CASE("histories of different groups, and other texts, are not compared", "[trace][host]") {
  const std::string one = CallHistory::text("1", {call(0, "broadcast", "[4] float32")});
  const std::string other = CallHistory::text("2", {call(0, "all_reduce(sum)", "[4] float32")});
  CHECK(CallHistory::difference("a", CallHistory(one), "b", CallHistory(other)).text.empty());
  for (const char* text : {"", "no JSON", "{}", R"({"groups": [{"name": "1"}]})"}) {
    CHECK(CallHistory(text).newest().empty());
    CHECK(CallHistory::difference("a", CallHistory(one), "b", CallHistory(text)).text.empty());
  }
  CHECK(CallHistory(one).newest() == "broadcast of [4] float32");
  CHECK(CallHistory(CallHistory::text("1", {})).newest().empty());
}

TEST_CASE("a mismatch tells the first recorded call that differs where that is new", "[trace][host]") {
  const std::string message = "all_reduce(sum), call 6: shape [3] differs from [4]. Pass equal shapes.";
  const auto find = [](bool is_newest, bool has_names) {
    return [=] {
      return CallDifference{.text = "call 5: a; b", .is_newest = is_newest, .has_names = has_names};
    };
  };
  const std::string described =
      "all_reduce(sum), call 6: shape [3] differs from [4]. The first recorded call that differs: call 5: a; "
      "b. "
      "Pass equal shapes.";
  const std::exception_ptr early = with_difference(mismatch(message), find(false, false));
  CHECK(message_of<DescribedMismatch>(early) == described);
  CHECK(message_of<DescribedMismatch>(with_difference(mismatch(message), find(true, true))) == described);
  CHECK(message_of<CollectiveMismatch>(with_difference(mismatch(message), find(true, false))) == message);
  CHECK(message_of<CollectiveMismatch>(with_difference(mismatch(message), [] { return CallDifference{}; })) ==
        message);
  CHECK(message_of<DescribedMismatch>(with_difference(early, find(false, true))) == described);
  CHECK(message_of<CollectiveMismatch>(with_difference(
            mismatch(message), []() -> CallDifference { throw std::bad_alloc(); })) == message);
  CHECK(message_of<DescribedMismatch>(with_difference(mismatch("They differ."), find(false, false))) ==
        "They differ. The first recorded call that differs: call 5: a; b.");
  const auto unrelated = std::make_exception_ptr(Error("something else. Do that."));
  CHECK(message_of<Error>(with_difference(unrelated, find(false, true))) == "something else. Do that.");
  try {
    std::rethrow_exception(early);
  } catch (const CollectiveMismatch& error) {
    CHECK(error.context().operation == "all_reduce");
    CHECK(error.context().operands == "[3], [4]");
    CHECK(error.context().hint == "Pass equal shapes.");
  }
}

}  // namespace lockstep::detail

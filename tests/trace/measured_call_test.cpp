#include "trace/measured_call.hpp"

#include <chrono>
#include <thread>

#include <catch2/catch_test_macros.hpp>

using namespace lockstep;
using detail::CallTotals;
using detail::MeasuredCall;
using detail::Span;
using detail::SpanWait;

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

/// Somebody listens to spans while it lives.
struct Listening {
  Listening() { Span::listeners().fetch_or(Span::kRecording); }
  ~Listening() { Span::listeners().fetch_and(~Span::kRecording); }
};

void sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

TEST_CASE("calls are measured while somebody listens", "[trace][host]") {
  CallTotals outer, inner;
  { const MeasuredCall call(outer); }
  CHECK(outer.num_calls == 0);
  const Listening listening;
  CHECK_FALSE(MeasuredCall::is_active());
  for (int i = 0; i < 2; ++i) {
    const MeasuredCall call(outer);
    CHECK(MeasuredCall::is_active());
    const MeasuredCall within(inner);
    sleep();
    const SpanWait waits;
    sleep();
  }
  CHECK_FALSE(MeasuredCall::is_active());
  CHECK(outer.num_calls == 2);
  CHECK(inner.num_calls == 2);
  CHECK(inner.total_ns >= 4 * kMillisecond);
  CHECK(inner.waiting_ns >= 2 * kMillisecond);
  CHECK(inner.waiting_ns <= inner.total_ns);
  CHECK(outer.inner_ns == inner.total_ns);
  CHECK(outer.total_ns >= outer.inner_ns);
  CHECK(outer.waiting_ns == 0);
  CHECK(inner.outermost == &outer);
  CHECK(outer.outermost == &outer);
}

TEST_CASE("measured calls of another thread are none of this one", "[trace][host]") {
  CallTotals here, there;
  bool is_active_there = true;
  const Listening listening;
  {
    const MeasuredCall call(here);
    std::thread([&] {
      is_active_there = MeasuredCall::is_active();
      const MeasuredCall other(there);
    }).join();
  }
  CHECK_FALSE(is_active_there);
  CHECK(here.inner_ns == 0);
  CHECK(there.outermost == &there);
}

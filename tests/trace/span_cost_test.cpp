// What recordings cost, in reads of the clock, which are most of it.
#include <ctime>

#include <catch2/catch_test_macros.hpp>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/trace.hpp>

#include "trace/span.hpp"

namespace {

thread_local int num_reads = 0;

}  // namespace

// Instead of the C library's, for std::chrono too.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  ++num_reads;
  return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
}

namespace lockstep::detail {

TEST_CASE("a span reads the clock twice while it is recorded, and else never", "[trace][host]") {
  const auto reads_of_spans = [] {
    const int before = num_reads;
    for (int i = 0; i < 100; ++i) {
      const Span span(SpanKind::run, "a span");
      const SpanWait waits;
    }
    return num_reads - before;
  };
  trace::stop();
  CHECK(reads_of_spans() == 0);
  trace::start();
  CHECK(reads_of_spans() == 400);  // two for the waiting
  trace::stop();
  CHECK(reads_of_spans() == 0);
}

}  // namespace lockstep::detail

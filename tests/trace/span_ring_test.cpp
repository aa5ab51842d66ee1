#include "trace/span_ring.hpp"

#include <atomic>
#include <string>
#include <thread>

#include <catch2/catch_test_macros.hpp>

namespace lockstep::detail {

namespace {

/// A span all of whose parts follow from its number.
SpanRecord numbered(std::uint64_t number) {
  static constexpr std::string_view kNames[] = {"even", "uneven"};
  return {.name = kNames[number % 2],
          .kind = static_cast<SpanKind>(number % 6),
          .replica = static_cast<std::int32_t>(number % 7) - 1,
          .begin_ns = number,
          .end_ns = number + 1,
          .waiting_ns = number + 2,
          .bytes = number + 3,
          .call = number + 4,
          .path = number % 3 == 0 ? nullptr : kNames[0].data()};
}

bool is_numbered(const SpanRecord& span) {
  const SpanRecord expected = numbered(span.begin_ns);
  return span.name == expected.name && span.kind == expected.kind && span.replica == expected.replica &&
         span.end_ns == expected.end_ns && span.waiting_ns == expected.waiting_ns &&
         span.bytes == expected.bytes && span.call == expected.call && span.path == expected.path;
}

}  // namespace

TEST_CASE("a ring of spans keeps the newest", "[trace][host]") {
  SpanRing ring(8, 3);
  CHECK(ring.thread() == 3);
  CHECK(ring.records().empty());
  for (std::uint64_t number = 0; number < 20; ++number) {
    ring.add(numbered(number));
    const std::vector<SpanRecord> records = ring.records();
    REQUIRE(records.size() >= std::min<std::uint64_t>(number + 1, 7));
    for (const SpanRecord& record : records) REQUIRE(is_numbered(record));
    REQUIRE(records.back().begin_ns == number);
    REQUIRE(records.front().begin_ns == number + 1 - records.size());
  }
  CHECK(ring.num_added() == 20);
}

TEST_CASE("a reader of a ring never sees halves of two spans", "[trace][host]") {
  constexpr std::uint64_t kSpans = 200'000;
  SpanRing ring(16, 0);
  std::atomic<bool> has_ended{false};
  std::thread writer([&] {
    for (std::uint64_t number = 0; number < kSpans; ++number) ring.add(numbered(number));
    has_ended = true;
  });
  bool all_whole = true;
  while (!has_ended) {
    const std::vector<SpanRecord> records = ring.records();
    for (std::size_t i = 0; i < records.size(); ++i)
      all_whole = all_whole && is_numbered(records[i]) && records[i].begin_ns == records[0].begin_ns + i;
  }
  writer.join();
  CHECK(all_whole);
  CHECK(ring.records().back().begin_ns == kSpans - 1);
}

}  // namespace lockstep::detail

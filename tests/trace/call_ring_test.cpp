#include "trace/call_ring.hpp"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/trace.hpp>

#include "support/scoped_log_sink.hpp"

namespace lockstep::detail {

namespace {

std::string text_of(const CallRecord& record) {
  BoundedText<256> text;
  record.put(text);
  return std::string(text.view());
}

TensorView view(const Shape& shape, DType dtype = DType::f32) {
  return TensorView(static_cast<void*>(nullptr), shape, dtype);
}

}  // namespace

TEST_CASE("a ring of calls keeps the newest, with their state", "[trace][host]") {
  CallRing ring(8);
  CallRecord record;
  CHECK_FALSE(ring.read_newest(record));
  const TensorView tensor = view({10});
  for (std::uint64_t number = 0; number < 20; ++number) {
    ring.begin(number, number % 5, "all_reduce(sum)", {&tensor, 1}, {}, false);
    REQUIRE(ring.read_newest(record));
    CHECK(record.number == number);
    CHECK(record.call == number % 5);
    CHECK(record.size_bytes == 40);
    CHECK(record.state == CallState::waiting);
    ring.set_state(CallState::started);
    ring.end(/*has_thrown=*/number % 2 == 1);
    REQUIRE(ring.read_newest(record));
    CHECK(record.state == (number % 2 == 1 ? CallState::failed : CallState::completed));
    ring.end(/*has_thrown=*/true);  // of a call that has ended: nothing
  }
  CHECK(ring.num_begun() == 20);
  CHECK(ring.find(19, record));
  CHECK(ring.find(14, record));
  CHECK(record.state == CallState::completed);
  CHECK_FALSE(ring.find(3, record));
  CHECK_FALSE(ring.find(20, record));
  CHECK_FALSE(ring.read(20, record));
}

TEST_CASE("a call on a device is enqueued until the device is known to have come to it", "[trace][host]") {
  CallRing ring(8);
  CallRecord record;
  const auto state_of = [&](std::uint64_t number) {
    REQUIRE(ring.find(number, record));
    return record.state;
  };
  for (std::uint64_t number = 0; number < 3; ++number) {
    ring.begin(number, number, "broadcast", {}, {}, /*enqueues=*/true);
    ring.end(false);
  }
  CHECK(state_of(0) == CallState::enqueued);
  ring.set_done_on_device(1);
  ring.set_begun_on_device(2);
  CHECK(ring.num_begun_on_device() == 2);
  CHECK(state_of(0) == CallState::completed);
  CHECK(state_of(1) == CallState::running);
  CHECK(state_of(2) == CallState::enqueued);
}

TEST_CASE("a record has its tensors, its label and its region, as far as there is room", "[trace][host]") {
  CallRing ring(8);
  CallRecord record;
  const auto newest = [&] {
    REQUIRE(ring.read_newest(record));
    return text_of(record);
  };
  ring.begin(0, 0, "merge_call", {}, {}, false);
  CHECK(newest() == "merge_call");
  const TensorView scalar = view({}, DType::f64);
  ring.begin(1, 1, "all_reduce(mean)", {&scalar, 1}, "loss", false);
  CHECK(newest() == "all_reduce(mean) of [] float64, 'loss'");
  const std::vector<TensorView> several = {view({2, 3, 4, 5, 6}, DType::i8), scalar, scalar};
  const trace::Region train("train");
  {
    const trace::Region backward("backward");
    ring.begin(2, 2, "broadcast", several, "a name that is much longer than there is room for", false);
  }
  CHECK(newest() ==
        "broadcast of [2, 3, 4, 5, ...] int8 and 2 more tensors, "
        "'ch longer than there is room for', in 'train/backward'");
  CHECK(record.size_bytes == 720 + 16);
  ring.begin(3, 3, "reduce(sum)", std::span(several).last(2), {}, false);
  CHECK(newest() == "reduce(sum) of [] float64 and 1 more tensor, in 'train'");
}

TEST_CASE("a ring of no calls records nothing", "[trace][host]") {
  CallRing ring(0);
  CallRecord record;
  ring.begin(0, 0, "broadcast", {}, {}, false);
  ring.set_state(CallState::started);
  ring.end(false);
  CHECK(ring.num_begun() == 0);
  CHECK_FALSE(ring.read_newest(record));
  CHECK_FALSE(ring.find(0, record));
}

TEST_CASE("LOCKSTEP_CALLS says how many calls are kept", "[trace][host]") {
  const auto capacity = [](const char* text) {
    ::setenv("LOCKSTEP_CALLS", text, 1);
    const std::size_t result = CallRing::default_capacity();
    ::unsetenv("LOCKSTEP_CALLS");
    return result;
  };
  CHECK(CallRing::default_capacity() == 64);
  CHECK(capacity("") == 64);
  CHECK(capacity("0") == 0);
  CHECK(capacity("1") == 2);
  CHECK(capacity("2000") == 2048);
  CHECK(capacity("65535") == 65536);
  std::string logged;
  const test::ScopedLogSink sink([&](std::string_view message) { logged = message; });
  for (const char* const wrong : {"65536", "-1", "many", "7 "}) {
    logged.clear();
    CHECK(capacity(wrong) == 64);
    CHECK(logged.find("LOCKSTEP_CALLS") != std::string::npos);
  }
}

TEST_CASE("a reader of a ring of calls never sees halves of two calls", "[trace][host]") {
  constexpr std::uint64_t kCalls = 200'000;
  static constexpr std::string_view kNames[] = {"even", "uneven"};
  CallRing ring(16);
  std::atomic<bool> has_ended{false};
  std::thread writer([&] {
    for (std::uint64_t number = 0; number < kCalls; ++number) {
      const TensorView tensor = view({static_cast<std::int64_t>(number)}, DType::u8);
      ring.begin(number, number + 1, kNames[number % 2], {&tensor, 1}, kNames[number % 2], false);
      ring.end(false);
    }
    has_ended = true;
  });
  bool all_whole = true;
  CallRecord record;
  while (!has_ended)
    for (std::uint64_t index = ring.first(); index < ring.num_begun(); ++index)
      if (ring.read(index, record))
        all_whole = all_whole && record.number == index && record.call == index + 1 &&
                    record.operation == kNames[index % 2] && record.label() == kNames[index % 2] &&
                    record.size_bytes == index;
  writer.join();
  CHECK(all_whole);
}

}  // namespace lockstep::detail

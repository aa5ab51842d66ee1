#include <type_traits>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>

#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

static_assert(!std::is_copy_constructible_v<Event> && std::is_nothrow_move_constructible_v<Event>);

TEST_CASE("an event marks the work enqueued before it was recorded", "[event]") {
  LazyDevice device;
  const Stream stream(device);
  const Event event(device);
  int done = 0;
  device.enqueue(stream.handle(), [&] { ++done; });
  event.record(stream);
  device.enqueue(stream.handle(), [&] { ++done; });
  CHECK_FALSE(event.is_complete());
  event.synchronize();
  CHECK(event.is_complete());
  CHECK(done == 1);
  event.record(stream);
  CHECK_FALSE(event.is_complete());
  event.synchronize();
  CHECK(done == 2);
  CHECK(event.device() == Device("GPU:0"));
}

TEST_CASE("an event that was never recorded orders nothing", "[event]") {
  bool done = false;
  LazyDevice device;
  const Stream first(device), second(device);
  const Event event(device);
  device.enqueue(first.handle(), [&] { done = true; });
  CHECK(event.is_complete());
  event.synchronize();
  second.wait(event);
  second.synchronize();
  CHECK_FALSE(done);
}

TEST_CASE("a stream waits for the mark that an event had then, also when the event is gone", "[event]") {
  int done = 0;
  LazyDevice device;
  const Stream first(device), second(device);
  {
    const Event event(device);
    device.enqueue(first.handle(), [&] { ++done; });
    event.record(first);
    second.wait(event);
    device.enqueue(first.handle(), [&] { ++done; });
    event.record(first);
  }
  second.synchronize();
  CHECK(done == 1);
}

TEST_CASE("host events are complete and can be waited for", "[event]") {
  const Event event("CPU:3");
  const Stream stream("CPU:3"), other("CPU:4");
  event.record(stream);
  CHECK(event.is_complete());
  event.synchronize();
  other.wait(event);
  CHECK(event.device() == Device("CPU:3"));
}

TEST_CASE("an event is recorded on streams of its own device only", "[event]") {
  const Event event("CPU:0");
  const Stream stream("CPU:1");
  CHECK_THROWS_MATCHES(event.record(stream), InvalidArgument, says("Event::record", "CPU:0", "CPU:1"));
  CHECK_THROWS_MATCHES(Event("GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
}

TEST_CASE("an Event destroys its handle once, and a moved-from one says so", "[event]") {
  LazyDevice device;
  const Stream stream(device);
  {
    Event first(device);
    Event second(std::move(first));
    Event third(device);
    CHECK(device.num_events == 2);
    third = std::move(second);
    CHECK(device.num_events == 1);
    Event& same = third;
    third = std::move(same);
    CHECK(third.is_complete());
    CHECK_THROWS_MATCHES(first.synchronize(), ContextError, says("Event", "moved from"));
    CHECK_THROWS_MATCHES(second.is_complete(), ContextError, says("Event", "moved from"));
    CHECK_THROWS_MATCHES(second.record(stream), ContextError, says("Event", "moved from"));
    CHECK_THROWS_MATCHES(stream.wait(second), ContextError, says("Event", "moved from"));
  }
  CHECK(device.num_events == 0);
}

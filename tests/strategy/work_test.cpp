#include <exception>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <lockstep/error.hpp>
#include <lockstep/strategy/work.hpp>
#include <lockstep/stream.hpp>

#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

namespace {

/// Work of one number, on a communication stream beside the current one.
struct Started {
  bool is_done = false;
  LazyDevice device;
  Stream communication{device}, current{device};
  StreamScope scope{current};

  Work<int> start() {
    device.enqueue(communication.handle(), [this] { is_done = true; });
    detail::StartedWork started;
    started.add(communication, {});
    return Work<int>(std::move(started), 7);
  }
};

}  // namespace

TEST_CASE("a Work goes on until its device is done", "[strategy][overlap]") {
  Started context;
  const Work<int> work = context.start();
  CHECK_FALSE(work.is_complete());
  CHECK_FALSE(work.is_success());
  CHECK(work.exception() == nullptr);
  CHECK_FALSE(context.is_done);
  work.synchronize();
  CHECK(context.is_done);
  CHECK(work.is_complete());
  CHECK(work.is_success());
}

TEST_CASE("wait and wait_stream order the current stream, and do not block the host", "[strategy][overlap]") {
  Started context;
  Work<int> work = context.start();
  const bool takes_result = GENERATE(true, false);
  if (takes_result)
    CHECK(work.wait() == 7);
  else
    work.wait_stream();
  CHECK_FALSE(context.is_done);
  CHECK_FALSE(work.is_complete());  // ordered, not done
  bool is_after = false;
  context.device.enqueue(context.current.handle(), [&] { is_after = context.is_done; });
  context.current.synchronize();
  CHECK(is_after);
  CHECK(work.is_success());
}

TEST_CASE("a Work may be waited for on several streams", "[strategy][overlap]") {
  Started context;
  Work<int> work = context.start();
  work.wait_stream();
  const Stream other(context.device);
  bool is_after = false;
  {
    const StreamScope scope(other);
    CHECK(work.wait() == 7);
  }
  context.device.enqueue(other.handle(), [&] { is_after = context.is_done; });
  other.synchronize();
  CHECK(is_after);
}

TEST_CASE("a Work that failed says so, and throws the failure wherever it is waited for",
          "[strategy][overlap]") {
  Started context;
  Work<int> work = context.start();
  context.device.event_failure = std::make_exception_ptr(DeviceError("the device is lost", {}, true));
  const bool by_asking = GENERATE(true, false);
  if (by_asking)
    CHECK(work.is_complete());
  else
    CHECK_THROWS_MATCHES(work.synchronize(), DeviceError, says("the device is lost"));
  context.device.event_failure = nullptr;  // it is told once
  CHECK(work.is_complete());
  CHECK_FALSE(work.is_success());
  REQUIRE(work.exception() != nullptr);
  CHECK_THROWS_MATCHES(std::rethrow_exception(work.exception()), DeviceError, says("the device is lost"));
  CHECK_THROWS_MATCHES(work.wait(), DeviceError, says("the device is lost"));
  CHECK_THROWS_MATCHES(work.wait_stream(), DeviceError, says("the device is lost"));
  Work<int> moved = std::move(work);
  CHECK_THROWS_MATCHES(moved.synchronize(), DeviceError, says("the device is lost"));
}

TEST_CASE("a Work that cannot be asked now, as in a capture, has not failed", "[strategy][overlap]") {
  Started context;
  Work<int> work = context.start();
  context.device.event_failure = std::make_exception_ptr(ContextError("the event was captured"));
  CHECK_FALSE(work.is_complete());
  CHECK(work.exception() == nullptr);
  CHECK_THROWS_MATCHES(work.synchronize(), ContextError, says("the event was captured"));
  CHECK(work.wait() == 7);
}

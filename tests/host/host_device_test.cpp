#include "host/host_device.hpp"

#include <memory>

#include <catch2/catch_test_macros.hpp>

#include "support/matchers.hpp"

namespace lockstep::host {

using test::says;

TEST_CASE("using a destroyed stream or event is an error that names it", "[stream][host]") {
  HostDevice device(2, std::make_shared<HostMemory>());
  const auto stream = device.create_stream();
  const auto event = device.create_event();
  device.record(event, stream);
  device.destroy_stream(stream);
  CHECK_THROWS_MATCHES(device.synchronize(stream), ContextError,
                       says("synchronize", "CPU:2", "stream", "destroyed"));
  CHECK_THROWS_MATCHES(device.is_complete(stream), ContextError, says("is_complete", "stream"));
  CHECK_THROWS_MATCHES(device.record(event, stream), ContextError, says("record", "stream"));
  CHECK_THROWS_MATCHES(device.wait(stream, event), ContextError, says("wait", "stream"));
  CHECK(device.is_complete(event));

  device.destroy_event(event);
  CHECK_THROWS_MATCHES(device.synchronize(event), ContextError,
                       says("synchronize", "CPU:2", "event", "destroyed"));
  CHECK_THROWS_MATCHES(device.is_complete(event), ContextError, says("is_complete", "event"));
}

TEST_CASE("a stream of another device, and no stream at all, are not this device's", "[stream][host]") {
  const auto memory = std::make_shared<HostMemory>();
  HostDevice first(0, memory);
  HostDevice second(1, memory);
  const auto stream = first.create_stream();
  CHECK(second.create_stream() != stream);
  CHECK_THROWS_MATCHES(second.synchronize(stream), ContextError, says("CPU:1", "stream"));
  CHECK_THROWS_MATCHES(second.synchronize(backend::StreamHandle{}), ContextError, says("stream 0"));
}

}  // namespace lockstep::host

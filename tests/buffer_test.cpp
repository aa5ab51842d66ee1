#include <algorithm>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/buffer.hpp>
#include <lockstep/error.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/stream.hpp>

#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

static_assert(!std::is_copy_constructible_v<Buffer> && std::is_nothrow_move_constructible_v<Buffer>);

TEST_CASE("a buffer holds aligned bytes and returns them", "[buffer]") {
  const Device device("CPU:0");
  const std::int64_t before = memory_stats(device).in_use_bytes;
  {
    const Buffer buffer(1000, current_stream(device));
    CHECK(buffer.size_bytes() == 1000);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256 == 0);
    CHECK(buffer.host_bytes().size() == 1000);
    CHECK(buffer.host_bytes().data() == buffer.data());
    std::fill(buffer.host_bytes().begin(), buffer.host_bytes().end(), std::byte{7});
    CHECK(memory_stats(device).in_use_bytes >= before + 1000);
  }
  CHECK(memory_stats(device).in_use_bytes == before);
}

TEST_CASE("P31 an empty buffer allocates nothing", "[buffer]") {
  LazyDevice device;
  {
    const Buffer buffer(0, default_stream(device));
    CHECK(buffer.data() == nullptr);
    CHECK(buffer.clone(default_stream(device)).size_bytes() == 0);
  }
  CHECK(device.num_allocations == 0);
  CHECK(device.num_launches == 0);
}

TEST_CASE("P39 a buffer is freed in stream order, after the work enqueued before", "[buffer]") {
  LazyDevice device;
  const Stream stream(device);
  std::byte seen{};
  {
    const Buffer buffer(8, stream);
    const std::byte value{42};
    device.copy_from_host(buffer.data(), &value, 1, stream.handle());
    device.enqueue(stream.handle(), [&, data = buffer.data()] { seen = *static_cast<std::byte*>(data); });
  }
  stream.synchronize();
  CHECK(seen == std::byte{42});
  CHECK(device.in_use_bytes == 0);
}

TEST_CASE("a buffer may outlive its stream", "[buffer]") {
  LazyDevice device;
  {
    auto stream = std::make_unique<Stream>(device);
    const Buffer buffer(8, *stream);
    stream.reset();
  }
  CHECK(device.in_use_bytes == 0);
}

TEST_CASE("a moved buffer is freed once", "[buffer]") {
  LazyDevice device;
  {
    Buffer first(8, default_stream(device));
    void* const data = first.data();
    Buffer second(std::move(first));
    CHECK(first.data() == nullptr);
    CHECK(first.size_bytes() == 0);
    CHECK(second.data() == data);
    Buffer third(16, default_stream(device));
    third = std::move(second);
    CHECK(third.data() == data);
    CHECK(device.in_use_bytes == 8);
    Buffer& same = third;
    third = std::move(same);
    CHECK(third.data() == data);
    third = Buffer();
    CHECK(device.in_use_bytes == 0);
  }
  CHECK(device.in_use_bytes == 0);
}

TEST_CASE("a clone has bytes of its own", "[buffer]") {
  const Buffer buffer(4, current_stream("CPU:0"));
  std::fill(buffer.host_bytes().begin(), buffer.host_bytes().end(), std::byte{1});
  const Buffer copy = buffer.clone(current_stream("CPU:0"));
  buffer.host_bytes()[0] = std::byte{2};
  CHECK(copy.host_bytes()[0] == std::byte{1});
  CHECK(copy.host_bytes()[3] == std::byte{1});
  CHECK_THROWS_MATCHES(buffer.clone(current_stream("CPU:1")), InvalidArgument,
                       says("Buffer::clone", "4 bytes", "CPU:0", "CPU:1"));
}

TEST_CASE("a buffer that belongs to no device says so", "[buffer]") {
  Buffer buffer(4, current_stream("CPU:0"));
  const Buffer taken(std::move(buffer));
  CHECK_THROWS_MATCHES(buffer.host_bytes(), ContextError, says("Buffer", "moved from"));
  CHECK_THROWS_MATCHES(buffer.clone(current_stream("CPU:0")), ContextError, says("Buffer", "moved from"));
  const Buffer none;
  CHECK_THROWS_MATCHES(none.host_bytes(), ContextError, says("Buffer", "default-constructed"));
}

TEST_CASE("the host cannot read a device's buffer", "[buffer]") {
  LazyDevice device;
  const Buffer buffer(4, default_stream(device));
  CHECK_THROWS_MATCHES(buffer.host_bytes(), InvalidArgument, says("Buffer::host_bytes", "4 bytes", "GPU:0"));
}

TEST_CASE("any thread may destroy a buffer", "[buffer]") {
  const std::int64_t before = memory_stats("CPU:0").in_use_bytes;
  Buffer buffer(4096, current_stream("CPU:0"));
  std::thread([taken = std::move(buffer)] {}).join();
  CHECK(memory_stats("CPU:0").in_use_bytes == before);
}

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>

#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

static_assert(!std::is_copy_constructible_v<Stream> && std::is_nothrow_move_constructible_v<Stream>);
static_assert(!std::is_copy_constructible_v<StreamScope>);

TEST_CASE("a stream runs its work in order and waits for all of it", "[stream]") {
  LazyDevice device;
  const Stream stream(device);
  std::string done;
  device.enqueue(stream.handle(), [&] { done += 'a'; });
  device.enqueue(stream.handle(), [&] { done += 'b'; });
  CHECK_FALSE(stream.is_complete());
  CHECK(done.empty());
  stream.synchronize();
  CHECK(stream.is_complete());
  CHECK(done == "ab");
  CHECK(stream.device() == Device("GPU:0"));
}

TEST_CASE("a host stream is always complete", "[stream]") {
  const Stream stream("CPU:5");
  CHECK(stream.device() == Device("CPU:5"));
  CHECK(stream.is_complete());
  stream.synchronize();
  CHECK_FALSE(stream == Stream("CPU:5"));
}

TEST_CASE("a stream waits for another stream's earlier work, not for its later work", "[stream]") {
  std::string done;
  LazyDevice device, peer(1);
  const Stream first(device);
  const bool same_device = GENERATE(true, false);
  const Stream second(same_device ? device : peer);
  device.enqueue(first.handle(), [&] { done += 'a'; });
  second.wait(first);
  device.enqueue(first.handle(), [&] { done += 'c'; });
  device.enqueue(second.handle(), [&] { done += 'b'; });
  CHECK(done.empty());
  second.synchronize();
  CHECK(done == "ab");
  CHECK_FALSE(first.is_complete());
  CHECK(device.num_events == 0);
}

TEST_CASE("a stream that waits for itself enqueues nothing", "[stream]") {
  LazyDevice device;
  const Stream stream(device);
  stream.wait(stream);
  CHECK(device.num_launches == 0);
}

TEST_CASE("between kinds of devices the calling thread waits", "[stream]") {
  bool done = false;
  LazyDevice device;
  const Stream gpu(device), cpu("CPU:0");
  device.enqueue(gpu.handle(), [&] { done = true; });
  SECTION("for a stream") {
    cpu.wait(gpu);
    CHECK(done);
  }
  SECTION("for an event") {
    const Event event(device);
    event.record(gpu);
    cpu.wait(event);
    CHECK(done);
  }
  SECTION("but a device has nothing to wait for on the host") {
    gpu.wait(cpu);
    CHECK_FALSE(done);
  }
}

TEST_CASE("a Stream destroys its handle once, whoever owns it last", "[stream]") {
  LazyDevice device;
  {
    Stream first(device);
    Stream second(std::move(first));
    CHECK(device.num_streams == 1);
    Stream third(device);
    CHECK(device.num_streams == 2);
    third = std::move(second);
    CHECK(device.num_streams == 1);
    Stream& same = third;
    third = std::move(same);
    CHECK(device.num_streams == 1);
    CHECK(third.is_complete());
  }
  CHECK(device.num_streams == 0);
}

TEST_CASE("a moved-from Stream says so", "[stream]") {
  Stream stream("CPU:0");
  const Stream taken(std::move(stream));
  CHECK_THROWS_MATCHES(stream.synchronize(), ContextError, says("Stream", "moved from"));
  CHECK_THROWS_MATCHES(stream.is_complete(), ContextError, says("Stream", "moved from"));
  CHECK_THROWS_MATCHES(stream.device(), ContextError, says("Stream", "moved from"));
  CHECK_THROWS_MATCHES(stream.wait(taken), ContextError, says("Stream", "moved from"));
  CHECK_THROWS_MATCHES(taken.wait(stream), ContextError, says("Stream", "moved from"));
  CHECK_THROWS_MATCHES(StreamScope(stream), ContextError, says("Stream", "moved from"));
  CHECK(current_stream("CPU:0") == default_stream(DeviceManager::instance().open("CPU:0")));
}

TEST_CASE("a stream needs a device that exists", "[stream]") {
  CHECK_THROWS_MATCHES(Stream("GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
  CHECK_THROWS_MATCHES(current_stream("GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
}

TEST_CASE("the current stream is the device's own but for the innermost scope's", "[stream]") {
  const Device device("CPU:0"), other("CPU:1");
  const StreamRef own = current_stream(device), others = current_stream(other);
  CHECK(own == default_stream(DeviceManager::instance().open(device)));
  CHECK_FALSE(own == others);
  const Stream outer(device), inner(device);
  {
    const StreamScope outer_scope(outer);
    CHECK(current_stream(device) == outer);
    CHECK(current_stream(other) == others);
    {
      const Stream elsewhere(other);
      const StreamScope inner_scope(inner);
      const StreamScope elsewhere_scope(elsewhere);
      CHECK(current_stream(device) == inner);
      CHECK(current_stream(other) == elsewhere);
      bool own_elsewhere = false;
      std::thread([&] { own_elsewhere = current_stream(device) == own; }).join();
      CHECK(own_elsewhere);
    }
    CHECK(current_stream(device) == outer);
    try {
      const StreamScope inner_scope(inner);
      throw 0;
    } catch (int) {
    }
    CHECK(current_stream(device) == outer);
  }
  CHECK(current_stream(device) == own);
}

TEST_CASE("all threads see one default stream of a device", "[stream]") {
  LazyDevice device;
  CHECK(default_stream(device) == default_stream(device));
  CHECK(device.num_streams == 1);
  backend::DeviceBackend& host = DeviceManager::instance().open("CPU:11");
  std::array<std::uintptr_t, 4> handles{};
  {
    std::vector<std::jthread> threads;
    for (auto& handle : handles) {
      threads.emplace_back([&] { handle = static_cast<std::uintptr_t>(default_stream(host).handle()); });
    }
  }
  for (const auto handle : handles) CHECK(handle == handles[0]);
}

TEST_CASE("borrowing a CUDA stream needs a GPU", "[stream]") {
  CHECK_THROWS_MATCHES(Stream::borrow(nullptr, "CPU:0"), InvalidArgument,
                       says("Stream::borrow", "CPU:0", "not a GPU"));
  CHECK_THROWS_MATCHES(Stream::borrow(nullptr, "GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
}

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/buffer.hpp>
#include <lockstep/error.hpp>
#include <lockstep/memory.hpp>

#include "support/matchers.hpp"
#include "support/replicas.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

std::vector<std::byte> read(const Buffer& buffer, const StreamRef& stream) {
  std::vector<std::byte> bytes(buffer.size_bytes());
  stream.device_backend().copy_to_host(bytes.data(), buffer.data(), bytes.size(), stream.handle());
  stream.synchronize();
  return bytes;
}

void write(const Buffer& buffer, const StreamRef& stream, std::byte value) {
  const std::vector<std::byte> bytes(buffer.size_bytes(), value);
  stream.device_backend().copy_from_host(buffer.data(), bytes.data(), bytes.size(), stream.handle());
  stream.synchronize();
}

}  // namespace

TEST_CASE("memory of any size is aligned to 256 bytes and holds its bytes", "[memory]") {
  const auto size_bytes =
      GENERATE(std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{257}, std::size_t{4093},
               std::size_t{1025}, (std::size_t{1} << 20) + 1, (std::size_t{8} << 20) + 1);
  const StreamRef stream = default_stream(TestBackend::open());
  const Buffer first(size_bytes, stream);
  const Buffer second(size_bytes, stream);
  CHECK(reinterpret_cast<std::uintptr_t>(first.data()) % 256 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(second.data()) % 256 == 0);

  write(first, stream, std::byte{1});
  write(second, stream, std::byte{2});
  CHECK(read(first, stream) == std::vector<std::byte>(size_bytes, std::byte{1}));
  CHECK(read(second, stream) == std::vector<std::byte>(size_bytes, std::byte{2}));
}

TEST_CASE("P31 a buffer of no bytes allocates nothing", "[memory]") {
  const StreamRef stream = default_stream(TestBackend::open());
  const MemoryStats before = memory_stats(stream.device());
  const Buffer buffer(0, stream);
  CHECK(buffer.data() == nullptr);
  CHECK(buffer.size_bytes() == 0);
  CHECK(memory_stats(stream.device()).in_use_bytes == before.in_use_bytes);
}

TEST_CASE("a step that repeats asks the system for no memory", "[memory]") {
  const StreamRef stream = default_stream(TestBackend::open());
  const auto step = [&] {
    const Buffer small(100, stream);
    const Buffer large(std::size_t{40} << 20, stream);
    const Buffer odd((std::size_t{3} << 20) + 7, stream);
  };
  step();
  stream.synchronize();
  const std::int64_t before = memory_stats(stream.device()).num_allocations;
  for (int i = 0; i < 100; ++i) step();
  stream.synchronize();
  // Virtual GPUs never reuse memory.
  if (!TestBackend::is_virtual_gpu()) CHECK(memory_stats(stream.device()).num_allocations == before);
}

TEST_CASE("memory statistics follow allocation, release and trimming", "[memory]") {
  const StreamRef stream = default_stream(TestBackend::open());
  const Device device = stream.device();
  const std::int64_t size_bytes = std::int64_t{5} << 20;
  const MemoryStats before = memory_stats(device);
  CHECK(before.free_bytes > 0);
  {
    const Buffer buffer(static_cast<std::size_t>(size_bytes), stream);
    CHECK(memory_stats(device).in_use_bytes >= before.in_use_bytes + size_bytes);
  }
  stream.synchronize();
  const MemoryStats released = memory_stats(device);
  CHECK(released.in_use_bytes == before.in_use_bytes);
  CHECK(released.cached_bytes >= size_bytes);

  trim_memory(device);
  CHECK(memory_stats(device).cached_bytes < released.cached_bytes);
  CHECK(memory_stats(device).in_use_bytes == before.in_use_bytes);
}

TEST_CASE("an impossible allocation says how much was asked for, how much is free, and where", "[memory]") {
  const StreamRef stream = default_stream(TestBackend::open());
  const std::int64_t before = memory_stats(stream.device()).in_use_bytes;
  const auto exponent = GENERATE(44, 60, 63);
  const std::size_t size_bytes = std::size_t{1} << exponent;
  REQUIRE_THROWS_MATCHES(
      Buffer(size_bytes, stream), OutOfMemory,
      says(std::to_string(size_bytes), "bytes requested", "bytes free", stream.device().to_string()));
  CHECK(memory_stats(stream.device()).in_use_bytes == before);

  const Buffer still_works(1 << 20, stream);
  CHECK(still_works.data() != nullptr);
}

TEST_CASE("pinned memory carries bytes to a device and back", "[memory]") {
  const StreamRef stream = default_stream(TestBackend::open());
  auto& device = stream.device_backend();
  PinnedBuffer source(4099, stream.device());
  PinnedBuffer result(4099, stream.device());
  for (std::size_t i = 0; i < source.bytes().size(); ++i) source.bytes()[i] = static_cast<std::byte>(i % 251);

  const Buffer buffer(source.bytes().size(), stream);
  device.copy_from_host(buffer.data(), source.bytes().data(), buffer.size_bytes(), stream.handle());
  device.copy_to_host(result.bytes().data(), buffer.data(), buffer.size_bytes(), stream.handle());
  stream.synchronize();
  CHECK(std::memcmp(source.bytes().data(), result.bytes().data(), source.bytes().size()) == 0);
}

TEST_CASE("threads allocate and release on one device at the same time", "[memory]") {
  auto& device = TestBackend::open();
  constexpr int kThreads = 4;
  std::array<int, kThreads> wrong{};
  on_replicas(kThreads, [&](int thread) {
    const Stream stream(device.device());
    for (int round = 0; round < 100; ++round) {
      const Buffer first(static_cast<std::size_t>(1 + round * 97), stream);
      const Buffer second(static_cast<std::size_t>(1 + round * 97), stream);
      const auto mark = static_cast<std::byte>(thread * 50 + round % 50);
      write(first, stream, mark);
      write(second, stream, mark);
      for (const Buffer* buffer : {&first, &second}) {
        if (read(*buffer, stream) != std::vector<std::byte>(buffer->size_bytes(), mark))
          ++wrong[static_cast<std::size_t>(thread)];
      }
    }
  });
  CHECK(wrong == std::array<int, kThreads>{});
}

}  // namespace lockstep::test

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/buffer.hpp>
#include <lockstep/error.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/stream.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::says;

static_assert(!std::is_copy_constructible_v<PinnedBuffer> &&
              std::is_nothrow_move_constructible_v<PinnedBuffer>);

TEST_CASE("memory_stats counts what is handed out and what is kept", "[memory]") {
  const Device device("CPU:0");
  trim_memory(device);
  const MemoryStats before = memory_stats(device);
  CHECK(before.cached_bytes == 0);
  { const Buffer buffer(1 << 20, current_stream(device)); }
  const MemoryStats after = memory_stats(device);
  CHECK(after.in_use_bytes == before.in_use_bytes);
  CHECK(after.cached_bytes >= 1 << 20);
  CHECK(after.num_allocations == before.num_allocations + 1);
  CHECK(after.free_bytes > 0);
  { const Buffer buffer(1 << 20, current_stream(device)); }
  CHECK(memory_stats(device).num_allocations == after.num_allocations);
  trim_memory(device);
  CHECK(memory_stats(device).cached_bytes == 0);
}

TEST_CASE("memory calls need a device that exists", "[memory]") {
  CHECK_THROWS_MATCHES(memory_stats("GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
  CHECK_THROWS_MATCHES(trim_memory("GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
  CHECK_THROWS_MATCHES(PinnedBuffer(8, "GPU:4000"), NotFound, says("GPU:4000", "CPU:0"));
}

TEST_CASE("an allocation that cannot be had says how much was asked for, and where", "[memory]") {
  const std::size_t too_much = std::numeric_limits<std::size_t>::max() / 4;
  CHECK_THROWS_MATCHES(Buffer(too_much, current_stream("CPU:0")), OutOfMemory,
                       says(std::to_string(too_much), "CPU:0"));
}

TEST_CASE("page-locked bytes are the host's, and move", "[memory]") {
  PinnedBuffer first(100, "CPU:0");
  REQUIRE(first.bytes().size() == 100);
  std::fill(first.bytes().begin(), first.bytes().end(), std::byte{3});
  PinnedBuffer second(std::move(first));
  CHECK(first.bytes().empty());
  CHECK(second.bytes()[99] == std::byte{3});
  PinnedBuffer third(10, "CPU:0");
  third = std::move(second);
  CHECK(third.bytes().size() == 100);
  CHECK(third.bytes()[0] == std::byte{3});
  PinnedBuffer& same = third;
  third = std::move(same);
  CHECK(third.bytes().size() == 100);
  const PinnedBuffer no_bytes(0, "CPU:0"), none;
  CHECK(no_bytes.bytes().empty());
  CHECK(none.bytes().empty());
}

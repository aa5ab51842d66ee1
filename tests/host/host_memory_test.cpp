#include "host/host_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "detail/sanitizers.hpp"
#include "support/matchers.hpp"

#if LOCKSTEP_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace lockstep::host {

using test::says;

TEST_CASE("blocks come in four steps to the power of two", "[memory][host]") {
  CHECK(HostMemory::block_bytes(1) == 256);
  CHECK(HostMemory::block_bytes(256) == 256);
  CHECK(HostMemory::block_bytes(257) == 512);
  CHECK(HostMemory::block_bytes(1024) == 1024);
  CHECK(HostMemory::block_bytes(1025) == 1280);
  CHECK(HostMemory::block_bytes(1280) == 1280);
  CHECK(HostMemory::block_bytes(1281) == 1536);
  CHECK(HostMemory::block_bytes(1793) == 2048);
  CHECK(HostMemory::block_bytes(2049) == 2560);
  CHECK(HostMemory::block_bytes((std::size_t{1} << 30) + 1) == (std::size_t{5} << 28));
  CHECK(HostMemory::block_bytes(std::size_t{1} << 56) == std::size_t{1} << 56);
  for (std::size_t size = 1; size < (std::size_t{1} << 40); size += 1 + size / 7) {
    const std::size_t block = HostMemory::block_bytes(size);
    REQUIRE(block >= size);
    REQUIRE(block % HostMemory::kAlignment == 0);
    REQUIRE((block - size <= size / 4 || block - size < HostMemory::kAlignment));
    REQUIRE(HostMemory::block_bytes(block) == block);
  }
}

TEST_CASE("a freed block is the next one of its size", "[memory][host]") {
  HostMemory memory;
  void* const first = memory.allocate(5000, Device());
  memory.deallocate(first, 5000);
  void* const second = memory.allocate(4900, Device());
  CHECK(second == first);
  CHECK(memory.stats().num_allocations == 1);
  memory.deallocate(second, 4900);
}

TEST_CASE("statistics count whole blocks", "[memory][host]") {
  HostMemory memory;
  void* const data = memory.allocate(1025, Device());
  CHECK(memory.stats().in_use_bytes == 1280);
  CHECK(memory.stats().cached_bytes == 0);
  memory.deallocate(data, 1025);
  CHECK(memory.stats().in_use_bytes == 0);
  CHECK(memory.stats().cached_bytes == 1280);
  memory.trim();
  CHECK(memory.stats().cached_bytes == 0);
}

TEST_CASE("the cache gives way before an allocation fails", "[memory][host]") {
  HostMemory memory;
  memory.deallocate(memory.allocate(1 << 20, Device()), 1 << 20);
  CHECK(memory.stats().cached_bytes == 1 << 20);
  REQUIRE_THROWS_MATCHES(
      memory.allocate(static_cast<std::size_t>(total_memory_bytes()) * 2, Device("CPU:3")), OutOfMemory,
      says("CPU:3", std::to_string(total_memory_bytes() * 2), "bytes free of", "0 bytes in use"));
  CHECK(memory.stats().cached_bytes == 0);
}

#if LOCKSTEP_ADDRESS_SANITIZER
TEST_CASE("AddressSanitizer sees the use of freed memory, and of what lies behind a block's bytes",
          "[memory][host]") {
  HostMemory memory;
  auto* const data = static_cast<std::byte*>(memory.allocate(1030, Device()));
  CHECK_FALSE(__asan_address_is_poisoned(data));
  CHECK_FALSE(__asan_address_is_poisoned(data + 1029));
  CHECK(__asan_address_is_poisoned(data + 1030));
  memory.deallocate(data, 1030);
  CHECK(__asan_address_is_poisoned(data));
}
#endif

TEST_CASE("the machine's memory is known", "[memory][host]") {
  CHECK(total_memory_bytes() > std::int64_t{1} << 28);
  CHECK(available_memory_bytes() > 0);
  CHECK(available_memory_bytes() <= total_memory_bytes());
}

}  // namespace lockstep::host

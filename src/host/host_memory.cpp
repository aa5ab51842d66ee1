#include "host/host_memory.hpp"

#include <bit>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <locale>
#include <mutex>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/numa.hpp"
#include "detail/sanitizers.hpp"

// Under AddressSanitizer cached blocks are poisoned, and so is the slack after the requested bytes.
#if LOCKSTEP_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) (static_cast<void>(data), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) (static_cast<void>(data), static_cast<void>(size))
#endif

namespace lockstep::host {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
// Smaller requests are not checked: reading the available memory takes microseconds, and they cannot exhaust
// the machine.
constexpr std::size_t kCheckedBytes = std::size_t{16} << 20;

}  // namespace

// Classes 0 to 3 have 256, 512, 768 and 1024 bytes. Then four classes lie between each power of two and the
// next, including the latter.
std::size_t HostMemory::class_of(std::size_t size_bytes) {
  if (size_bytes <= 4 * kAlignment) return size_bytes == 0 ? 0 : (size_bytes - 1) / kAlignment;
  const std::size_t log2 =
      static_cast<std::size_t>(std::bit_width(size_bytes - 1));  // 2^(log2-1) < size_bytes <= 2^log2
  const std::size_t quarter = (size_bytes - 1 - (std::size_t{1} << (log2 - 1))) >> (log2 - 3);
  return 4 * (log2 - 10) + quarter;
}

std::size_t HostMemory::bytes_of_class(std::size_t size_class) {
  if (size_class < 4) return (size_class + 1) * kAlignment;
  return (4 + size_class % 4 + 1) << (size_class / 4 + 7);
}

std::size_t HostMemory::block_bytes(std::size_t size_bytes) { return bytes_of_class(class_of(size_bytes)); }

void* HostMemory::take_cached(std::size_t size_class) {
  const std::lock_guard lock(mutex_);
  auto& blocks = cache_[size_class];
  if (blocks.empty()) return nullptr;
  void* const data = blocks.back();
  blocks.pop_back();
  const auto bytes = static_cast<std::int64_t>(bytes_of_class(size_class));
  cached_bytes_ -= bytes;
  in_use_bytes_ += bytes;
  return data;
}

void* HostMemory::take_from_system(std::size_t block_bytes) {
  if (block_bytes >= kCheckedBytes && block_bytes > static_cast<std::size_t>(available_memory_bytes()))
    return nullptr;
  const bool huge = block_bytes >= kHugePageBytes;
  void* data = nullptr;
  if (posix_memalign(&data, huge ? kHugePageBytes : kAlignment, block_bytes) != 0) return nullptr;
  if (huge) detail::Numa::machine().bind_memory(data, block_bytes, node_);  // smaller blocks share pages
  // This is only advice: with fewer page translations, large copies and reductions come closer to the
  // memory's speed.
  if (huge) madvise(data, block_bytes, MADV_HUGEPAGE);
  const std::lock_guard lock(mutex_);
  in_use_bytes_ += static_cast<std::int64_t>(block_bytes);
  ++num_allocations_;
  return data;
}

void* HostMemory::allocate(std::size_t size_bytes, const Device& device) {
  void* data = nullptr;
  if (size_bytes <= kMaxBytes) {
    const std::size_t size_class = class_of(size_bytes);
    const std::size_t block_bytes = bytes_of_class(size_class);
    data = take_cached(size_class);
    if (data == nullptr) data = take_from_system(block_bytes);
    if (data == nullptr) {
      trim();
      data = take_from_system(block_bytes);
    }
    if (data != nullptr) {
      ASAN_POISON_MEMORY_REGION(data, block_bytes);
      ASAN_UNPOISON_MEMORY_REGION(data, size_bytes);
    }
  }
  LOCKSTEP_EXPECTS(data != nullptr, OutOfMemory, "allocate on ", device, ": ", size_bytes,
                   " bytes requested, ", available_memory_bytes(), " bytes free of ", total_memory_bytes(),
                   ", ", stats().in_use_bytes,
                   " bytes in use by tensors. Use smaller batches or fewer replicas.");
  return data;
}

void HostMemory::deallocate(void* data, std::size_t size_bytes) noexcept {
  const std::size_t size_class = class_of(size_bytes);
  const std::size_t bytes = bytes_of_class(size_class);
  ASAN_POISON_MEMORY_REGION(data, bytes);
  const std::lock_guard lock(mutex_);
  in_use_bytes_ -= static_cast<std::int64_t>(bytes);
  try {
    cache_[size_class].push_back(data);
    cached_bytes_ += static_cast<std::int64_t>(bytes);
  } catch (...) {  // the list itself could not grow
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    std::free(data);
  }
}

MemoryStats HostMemory::stats() const {
  MemoryStats stats;
  stats.free_bytes = available_memory_bytes();
  const std::lock_guard lock(mutex_);
  stats.in_use_bytes = in_use_bytes_;
  stats.cached_bytes = cached_bytes_;
  stats.num_allocations = num_allocations_;
  return stats;
}

void HostMemory::trim() noexcept {
  const std::lock_guard lock(mutex_);
  for (std::size_t size_class = 0; size_class < kNumClasses; ++size_class) {
    for (void* const data : cache_[size_class]) {
      ASAN_UNPOISON_MEMORY_REGION(data, bytes_of_class(size_class));
      std::free(data);
    }
    cache_[size_class].clear();
  }
  cached_bytes_ = 0;
}

std::int64_t total_memory_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
}

std::int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  file.imbue(std::locale::classic());
  std::string key;
  std::int64_t kibibytes = 0;
  while (file >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return total_memory_bytes();
}

}  // namespace lockstep::host

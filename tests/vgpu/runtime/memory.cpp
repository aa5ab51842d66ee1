// Device memory: what the program sees is a range without access rights; the bytes live in a second mapping
// at a fixed distance. Allocations are exact to the byte, separated by gaps and not reused while address
// space lasts.
#include <algorithm>

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

constexpr std::size_t unit = 512;             // alignment of allocations and size of gaps
constexpr std::size_t large_from = 8u << 20;  // allocations of at least this are mapped page-wise
constexpr std::size_t large_alignment = 2u << 20;
constexpr std::size_t poison_bytes = 16u << 20;
constexpr int fresh_byte = 0xFB, freed_byte = 0xFD;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

struct CacheEntry {
  std::uint64_t epoch = 0;
  int device = -1;
  Address begin = 0, end = 0;
  std::ptrdiff_t delta = 0;
};
struct Cache {
  CacheEntry entries[8];
  unsigned next = 0;
  unsigned last = 0;
};
thread_local Cache cache __attribute__((tls_model("initial-exec")));

const char* kind_name(Allocation::Kind kind) {
  switch (kind) {
    case Allocation::Kind::device: return "device";
    case Allocation::Kind::pinned: return "pinned host";
    case Allocation::Kind::registered: return "registered host";
    case Allocation::Kind::managed: return "managed";
    case Allocation::Kind::symbol: return "module variable";
  }
  return "?";
}

}  // namespace

void MemoryMap::initialise(const Config& config) {
  devices_ = config.devices;
  limit_ = config.memory;
  if (devices_ == 0) return;
  span_ = std::max<std::size_t>(std::size_t{32} << 30, config.memory * 8);
  for (;; span_ /= 2) {
    if (span_ < config.memory * 2) {
      std::fprintf(stderr, "vgpu: cannot reserve address space for %d devices\n", devices_);
      std::abort();
    }
    const std::size_t total = span_ * devices_;
    void* accessible =
        mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (accessible == MAP_FAILED) continue;
    void* const wanted = reinterpret_cast<void*>(0x7e8010000000);
    void* visible = mmap(wanted, total, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (visible == MAP_FAILED)
      visible = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (visible == MAP_FAILED) {
      munmap(accessible, total);
      continue;
    }
    madvise(accessible, total, MADV_NOHUGEPAGE);
    madvise(accessible, total, MADV_DONTDUMP);
    base_ = to_address(visible);
    shadow_ = static_cast<std::ptrdiff_t>(to_address(accessible) - base_);
    break;
  }
  poison_file_ = memfd_create("vgpu-poison", MFD_CLOEXEC);
  if (poison_file_ >= 0) {
    if (ftruncate(poison_file_, poison_bytes) == 0) {
      void* map = mmap(nullptr, poison_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, poison_file_, 0);
      if (map != MAP_FAILED) {
        std::memset(map, fresh_byte, poison_bytes);
        munmap(map, poison_bytes);
      } else {
        close(poison_file_);
        poison_file_ = -1;
      }
    }
  }
  next_.assign(devices_, large_alignment);
  quarantine_.resize(devices_);
  used.assign(devices_, 0);
  peer.assign(devices_, std::vector<bool>(devices_, false));
}

void MemoryMap::fill(Allocation& allocation, int byte) {
  if (!allocation.large) {
    std::memset(allocation.host, byte, allocation.bytes);
    return;
  }
  if (poison_file_ < 0) {
    std::memset(allocation.host, byte, allocation.bytes);
    return;
  }
  const std::size_t total = round_up(allocation.bytes, 4096);
  if (byte == freed_byte) {
    mmap(allocation.host, total, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return;
  }
  for (std::size_t at = 0; at < total; at += poison_bytes) {
    const std::size_t part = std::min(poison_bytes, total - at);
    if (mmap(allocation.host + at, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
             poison_file_, 0) == MAP_FAILED) {
      mmap(allocation.host + at, part, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      std::memset(allocation.host + at, byte, part);
    }
  }
}

Allocation* MemoryMap::allocate_device(int device, std::size_t bytes, Allocation::Kind kind,
                                       Allocation::State state, const char* origin) {
  std::unique_lock guard(mutex_);
  const std::size_t charged = round_up(bytes, unit);
  if (charged < bytes) return nullptr;
  if (kind == Allocation::Kind::device && (charged > limit_ || used[device] > limit_ - charged))
    return nullptr;
  const bool large = bytes >= large_from;
  const std::size_t alignment = large ? large_alignment : unit;
  std::size_t offset = round_up(next_[device], alignment);
  const std::size_t room = round_up(bytes, large ? 4096 : unit) + (large ? 4096 : unit);
  if (offset + room <= span_) {
    next_[device] = offset + room;
  } else {
    // The address space is used up: take the place of something freed long ago.
    auto& freed = quarantine_[device];
    auto place = std::find_if(freed.begin(), freed.end(),
                              [&](Allocation* old) { return old->bytes >= bytes && old->large == large; });
    if (place == freed.end()) return nullptr;
    Allocation* old = *place;
    offset = old->start - base_ - span_ * device;
    race_forget(old->start, old->start + old->bytes);
    freed.erase(place);
    table_.erase(old->start);
    delete old;
  }
  auto* allocation = new Allocation;
  allocation->kind = kind;
  allocation->state = state;
  allocation->id = next_id_++;
  allocation->start = base_ + span_ * device + offset;
  allocation->bytes = bytes;
  allocation->charged = kind == Allocation::Kind::device ? charged : 0;
  allocation->device = device;
  allocation->host = reinterpret_cast<char*>(allocation->start + shadow_);
  allocation->large = large;
  allocation->origin = origin;
  used[device] += allocation->charged;
  table_[allocation->start] = allocation;
  fill(*allocation, fresh_byte);
  ++epoch;
  return allocation;
}

Allocation* MemoryMap::allocate_host(std::size_t bytes, Allocation::Kind kind, int device,
                                     const char* origin) {
  const std::size_t total = round_up(std::max<std::size_t>(bytes, 1), 4096);
  // One inaccessible page at the end: running over it faults.
  void* map =
      mmap(nullptr, total + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  mprotect(static_cast<char*>(map) + total, 4096, PROT_NONE);
  if (bytes < (64u << 20)) std::memset(map, fresh_byte, bytes);
  std::unique_lock guard(mutex_);
  auto* allocation = new Allocation;
  allocation->kind = kind;
  allocation->id = next_id_++;
  allocation->start = to_address(map);
  allocation->bytes = bytes;
  allocation->device = device;
  allocation->host = static_cast<char*>(map);
  allocation->origin = origin;
  table_[allocation->start] = allocation;
  ++epoch;
  return allocation;
}

Allocation* MemoryMap::register_host(void* pointer, std::size_t bytes, int device) {
  std::unique_lock guard(mutex_);
  auto* allocation = new Allocation;
  allocation->kind = Allocation::Kind::registered;
  allocation->id = next_id_++;
  allocation->start = to_address(pointer);
  allocation->bytes = bytes;
  allocation->device = device;
  allocation->host = static_cast<char*>(pointer);
  allocation->origin = "cudaHostRegister";
  table_[allocation->start] = allocation;
  ++epoch;
  return allocation;
}

void MemoryMap::set_live(Allocation& allocation) {
  std::unique_lock guard(mutex_);
  if (allocation.state == Allocation::State::freed) fill(allocation, fresh_byte);  // a graph's second launch
  allocation.state = Allocation::State::live;
  ++epoch;
}

void MemoryMap::release(Allocation& allocation, const std::string& by) {
  std::unique_lock guard(mutex_);
  ++epoch;
  allocation.state = Allocation::State::freed;
  allocation.freed_by = by;
  if (!allocation.on_device()) race_forget(allocation.start, allocation.start + allocation.bytes);
  switch (allocation.kind) {
    case Allocation::Kind::registered:
      table_.erase(allocation.start);
      delete &allocation;
      return;
    case Allocation::Kind::pinned:
    case Allocation::Kind::managed: {
      // The addresses stay reserved, without access: use after free faults and is told from other memory.
      const std::size_t total = round_up(std::max<std::size_t>(allocation.bytes, 1), 4096);
      mmap(allocation.host, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      return;
    }
    default: break;
  }
  used[allocation.device] -= allocation.charged;
  allocation.charged = 0;
  fill(allocation, freed_byte);
  if (!allocation.from_graph) quarantine_[allocation.device].push_back(&allocation);
}

Allocation* MemoryMap::find_locked(Address address) const {
  auto next = table_.upper_bound(address);
  if (next == table_.begin()) return nullptr;
  Allocation* allocation = std::prev(next)->second;
  return address < allocation->start + allocation->bytes ? allocation : nullptr;
}

Allocation* MemoryMap::find(Address address) {
  std::shared_lock guard(mutex_);
  return find_locked(address);
}

Allocation* MemoryMap::overlapping(Address begin, Address end) {
  std::shared_lock guard(mutex_);
  for (auto at = table_.lower_bound(begin); at != table_.end() && at->first < end; ++at)
    if (at->second->state != Allocation::State::freed) return at->second;
  Allocation* first = find_locked(begin);
  return first && first->state != Allocation::State::freed ? first : nullptr;
}

bool MemoryMap::reachable(int device, const Allocation& allocation) const {
  if (device < 0 || !allocation.on_device() || allocation.device == device) return true;
  if (allocation.pool) {
    // Memory of a pool follows the pool's access list, not cudaDeviceEnablePeerAccess.
    auto entry = allocation.pool->access.find(device);
    return entry != allocation.pool->access.end() && entry->second == cudaMemAccessFlagsProtReadWrite;
  }
  return peer[device][allocation.device];
}

void* MemoryMap::resolve(int device, std::uint64_t address, std::size_t bytes, bool write,
                         Ordering ordering) {
  Cache& lines = cache;
  const std::uint64_t now = epoch.load(std::memory_order_relaxed);
  char* found = nullptr;
  {
    const CacheEntry& entry = lines.entries[lines.last];
    if (entry.epoch == now && entry.device == device && address >= entry.begin && address <= entry.end &&
        bytes <= entry.end - address)
      found = reinterpret_cast<char*>(address + entry.delta);
  }
  if (!found) {
    for (unsigned index = 0; index < 8; ++index) {
      const CacheEntry& entry = lines.entries[index];
      if (entry.epoch == now && entry.device == device && address >= entry.begin && address <= entry.end &&
          bytes <= entry.end - address) {
        found = reinterpret_cast<char*>(address + entry.delta);
        lines.last = index;
        break;
      }
    }
  }
  if (!found) {
    std::shared_lock guard(mutex_);
    Allocation* allocation = find_locked(address);
    if (!allocation || allocation->state != Allocation::State::live || !reachable(device, *allocation))
      return nullptr;
    const Address end = allocation->start + allocation->bytes;
    if (bytes > end - address) return nullptr;
    lines.next = (lines.next + 1) % 8;
    lines.entries[lines.next] = {
        epoch.load(), device, allocation->start, end,
        reinterpret_cast<char*>(allocation->host) - reinterpret_cast<char*>(allocation->start)};
    lines.last = lines.next;
    found = allocation->host + (address - allocation->start);
  }
  if (write) num_writes.store(num_writes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (recorder) recorder->access(address, bytes, write, ordering);
  return found;
}

char* MemoryMap::translate(int device, Address address, std::size_t bytes, bool write,
                           const std::string& who) {
  if (bytes == 0) return nullptr;
  void* pointer = resolve(device, address, bytes, write);
  if (!pointer)
    throw Fault{cudaErrorIllegalAddress,
                who + ": " + (write ? "writes " : "reads ") + explain(device, address, bytes)};
  return static_cast<char*>(pointer);
}

std::string MemoryMap::explain(int device, Address address, std::size_t bytes) const {
  std::shared_lock guard(mutex_);
  std::string text = format("%zu bytes at 0x%llx: ", bytes, static_cast<unsigned long long>(address));
  Allocation* allocation = find_locked(address);
  if (!allocation) {
    auto next = table_.upper_bound(address);
    if (next != table_.begin()) {
      Allocation* before = std::prev(next)->second;
      const Address end = before->start + before->bytes;
      if (address - end < (1u << 20))
        return text + format("%llu bytes past the end of the %zu-byte %s allocation #%llu (%s, device %d)%s",
                             static_cast<unsigned long long>(address - end), before->bytes,
                             kind_name(before->kind), static_cast<unsigned long long>(before->id),
                             before->origin.c_str(), before->device,
                             before->state == Allocation::State::freed ? ", which was freed" : "");
    }
    return text + (in_device_range(address)
                       ? "no allocation there"
                       : "not memory of a device and not pinned, managed or registered host memory");
  }
  text += format("in the %zu-byte %s allocation #%llu (%s, device %d, starts at 0x%llx)", allocation->bytes,
                 kind_name(allocation->kind), static_cast<unsigned long long>(allocation->id),
                 allocation->origin.c_str(), allocation->device,
                 static_cast<unsigned long long>(allocation->start));
  if (allocation->state == Allocation::State::freed)
    return text + ", USE AFTER FREE: it was freed by " + allocation->freed_by;
  if (allocation->state == Allocation::State::pending)
    return text + ", whose stream-ordered allocation has not happened yet at this point";
  if (!reachable(device, *allocation))
    return text +
           format(", which device %d may not access (no cudaDeviceEnablePeerAccess or cudaMemPoolSetAccess)",
                  device);
  const Address end = allocation->start + allocation->bytes;
  if (address + bytes > end)
    return text + format(", %llu bytes past its end", static_cast<unsigned long long>(address + bytes - end));
  return text;
}

std::vector<Allocation*> MemoryMap::all() {
  std::shared_lock guard(mutex_);
  std::vector<Allocation*> list;
  for (auto& [address, allocation] : table_) list.push_back(allocation);
  return list;
}

}  // namespace vgpu::rt

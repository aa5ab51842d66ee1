// Settings, from the environment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace vgpu::rt {

struct Config {
  int devices = 4;
  // Of each device; the last one's is that of all that follow.
  std::vector<int> capabilities{90};
  enum class Mode { normal, exclusive, taken, prohibited };  // taken: exclusive, and another process has it
  std::vector<Mode> modes{Mode::normal};
  template <class T>
  static const T& of(const std::vector<T>& list, int device) {
    return list[std::min(static_cast<std::size_t>(device), list.size() - 1)];
  }
  int capability(int device) const { return of(capabilities, device); }
  Mode mode(int device) const { return of(modes, device); }
  int driver = CUDART_VERSION;  // as cudaDriverGetVersion counts
  bool fabric_manager = true;
  bool memory_pools = true;
  int sms = 132;
  std::size_t memory = std::size_t{2048} << 20;
  enum class Link { none, pcie, nvlink } link = Link::nvlink;  // between any two devices
  bool peer_access() const { return link != Link::none; }
  std::uint64_t seed = 1;
  enum class Schedule { random, eager, fifo } schedule = Schedule::random;
  unsigned deadlock_ms = 2000;
  unsigned idle_ms = 100;
  bool abort_on_deadlock = false;
  bool leak_check = false;
  bool race_check = false;
  bool lazy_memcpy = false;
  // Rules of hardware that are enforced when asked for, see README.md.
  struct Strict {
    bool graph_memory = false;
    bool lazy_loading = false;
    bool pool_dependencies = false;
    bool allocation_waits = false;
    bool handle_reuse = false;
    bool current_device = false;
  } strict;
  FILE* trace = nullptr;
  std::string counts_file;  // empty: none is written
};

// VGPU_FAIL: which call fails, and how.
struct FailRule {
  std::string name;
  std::uint64_t at = 0;
  bool onwards = false;
  std::string error;
  std::uint64_t seen = 0;
};

// Both end the program where a variable is no such setting.
Config read_config();
std::vector<FailRule> read_fail_rules();

}  // namespace vgpu::rt

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::soak {

/// What this process holds of the system.
struct Usage {
  std::int64_t resident_kib = 0;
  std::int64_t num_threads = 0;
  std::int64_t num_descriptors = 0;
  std::int64_t num_mappings = 0;

  /// As the system tells in /proc/self, after the allocator has given back what it can.
  static Usage now();
};

/// Whether usage grows from life to life.
class UsageHistory {
 public:
  void add(const Usage& usage) { usages_.push_back(usage); }
  /// Compares the last quarter with the second one, which leaves out what is made once.
  /// @return what has grown, or "" where nothing has.
  std::string growth() const;

 private:
  std::vector<Usage> usages_{};
};

}  // namespace lockstep::soak

#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <vector>

namespace lockstep::detail {

/// Memory for the short lists of one call, one element for each replica, without the heap unless there are
/// very many. Nothing is freed before it goes.
class StackMemory {
 public:
  std::pmr::memory_resource* resource() noexcept { return &resource_; }

 private:
  std::array<std::byte, 1024> bytes_;
  std::pmr::monotonic_buffer_resource resource_{bytes_.data(), bytes_.size()};
};

}  // namespace lockstep::detail

#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>

#include "workers/shared_memory/shared_parking.hpp"

namespace lockstep::detail {

/// In place of memory that processes share: memory of this one, for threads.
class SharedSegment {
 public:
  explicit SharedSegment(std::span<const std::size_t> part_bytes) {
    begins_.push_back(0);
    for (const std::size_t bytes : part_bytes) begins_.push_back(begins_.back() + (bytes + 63) / 64 * 64);
    data_ = std::make_unique<Line[]>(begins_.back() / sizeof(Line));
  }
  SharedSegment(backend::ProcessGroup&, std::string_view, std::span<const std::size_t> part_bytes)
      : SharedSegment(part_bytes) {}

  int num_parts() const noexcept { return static_cast<int>(begins_.size()) - 1; }
  std::span<std::byte> part(int process) const noexcept {
    const auto p = static_cast<std::size_t>(process);
    return {reinterpret_cast<std::byte*>(data_.get()) + begins_[p], begins_[p + 1] - begins_[p]};
  }
  std::span<std::byte> common() const noexcept {
    return {reinterpret_cast<std::byte*>(&parking_), sizeof parking_};
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::vector<std::size_t> begins_;
  std::unique_ptr<Line[]> data_;
  mutable SharedParking parking_;
};

}  // namespace lockstep::detail

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>

namespace lockstep::detail {

/// Memory that the processes of a group on one host share: a part of each process, in whole pages, zeroed, at
/// different addresses in different processes. Each allocates its own part, so that it is near its cores.
///
/// It is a file without a name, which the others open through /proc, so that nothing is left of it when they
/// are killed. Where one of them may not, it is one with a name, which is removed once all have mapped it.
class SharedSegment {
 public:
  /// All processes make theirs together, and all succeed or throw.
  /// @param what  for messages: whose memory it is.
  /// @param part_bytes  of each process; the same on all.
  /// @throws OutOfMemory; Unsupported: a process cannot open what another shares; and as
  /// ProcessGroup::all_gather.
  SharedSegment(backend::ProcessGroup& group, std::string_view what, std::span<const std::size_t> part_bytes);

  int num_parts() const noexcept { return static_cast<int>(begins_.size()) - 1; }
  std::span<std::byte> part(int process) const noexcept {
    const auto p = static_cast<std::size_t>(process);
    return {data_.get() + begins_[p], begins_[p + 1] - begins_[p]};
  }
  /// A cache line or more of all of them.
  std::span<std::byte> common() const noexcept;

 private:
  struct Unmap {
    std::size_t size_bytes;
    void operator()(std::byte* data) const noexcept;
  };

  std::vector<std::size_t> begins_;  // of the parts; behind the last, the size
  std::unique_ptr<std::byte, Unmap> data_{nullptr, Unmap{0}};
};

}  // namespace lockstep::detail

#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <nccl.h>

namespace lockstep::cuda {

/// Communicators whose owner has gone while CUDA graphs had their calls. NCCL's end of a communicator waits
/// for the end of these graphs, which the calling thread itself may have to destroy. Thread-safe.
class LeftCommunicators {
 public:
  struct Group {
    std::vector<ncclComm_t> communicators;
    std::shared_ptr<const void> captured;  // also of each graph that has their calls
    bool is_aborted = false;
    std::shared_ptr<const void> memory{};  // of calls that are not NCCL's; outlives the communicators

    bool has_graphs() const { return captured.use_count() > 1; }
  };

  static LeftCommunicators& instance();

  /// Ends a group: now if its graphs are gone, or go within a second; else when they are gone and
  /// end_those_left is called: with the next communicator that is made or ends, by trim_memory of any GPU,
  /// and at the process's end.
  void end(Group group) noexcept;
  void end_those_left() noexcept;

 private:
  std::mutex mutex_;  // guards groups_
  std::vector<Group> groups_;
};

}  // namespace lockstep::cuda

#include "communicators/left_communicators.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

#include "detail/concat.hpp"
#include "detail/immortal.hpp"
#include "detail/warn.hpp"
#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "libraries/nccl_library.hpp"

namespace lockstep::cuda {
namespace {

void end_now(const LeftCommunicators::Group& group) noexcept {
  const OutsideCaptures outside;
  for (ncclComm_t communicator : group.communicators)
    group.is_aborted ? ncclCommAbort(communicator) : ncclCommDestroy(communicator);
}

/// Waits for a while: CUDA drops what a graph has kept some time after the graph, in a thread of its own.
bool are_graphs_gone(const LeftCommunicators::Group& group) noexcept {
  constexpr std::chrono::seconds kPatience{1};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (group.has_graphs()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

LeftCommunicators& LeftCommunicators::instance() { return lockstep::detail::immortal<LeftCommunicators>(); }

void LeftCommunicators::end(Group group) noexcept {
  if (group.communicators.empty() && group.memory == nullptr) return;
  if (are_graphs_gone(group)) return end_now(group);
  lockstep::detail::warn(lockstep::detail::concat(
      "an NCCL communicator of ", group.communicators.size(),
      " GPUs is left as it is: a CUDA graph has its collectives, and NCCL would wait for the graph's end. "
      "Destroy graphs before the strategy or communicator whose collectives they have"));
  // Registered now, so that it runs while NCCL, which was loaded before, is still there.
  static const int registered = std::atexit([] { instance().end_those_left(); });
  static_cast<void>(registered);
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
}

void LeftCommunicators::end_those_left() noexcept {
  if (is_fork_of_user()) return;
  const CallerDevice caller;
  std::vector<Group> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto first =
        std::partition(groups_.begin(), groups_.end(), [](const Group& g) { return g.has_graphs(); });
    ended.assign(std::make_move_iterator(first), std::make_move_iterator(groups_.end()));
    groups_.erase(first, groups_.end());
  }
  for (const Group& group : ended) end_now(group);
}

}  // namespace lockstep::cuda

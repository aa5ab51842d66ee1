#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/loss.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// When a call gives up; nothing: never.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/// A sequence of collectives between the processes of a group, in which an engine moves bytes. All processes
/// make the same calls in the same order, with sizes that fit. One thread at a time; calls of different
/// channels may run at the same time.
///
/// Every call throws CollectiveTimeout after its deadline, and CollectiveAborted once the channel was aborted
/// or a process is lost. The channel cannot be used after either.
class Channel {
 public:
  virtual ~Channel() = default;

  /// `own` has the same size on every process. @param all  num_processes times as large, by process.
  virtual void all_gather(std::span<const std::byte> own, std::span<std::byte> all, Deadline deadline) = 0;
  virtual void broadcast(std::span<std::byte> buffer, int root, Deadline deadline) = 0;
  virtual void barrier(Deadline deadline) = 0;
  /// Sends sends[p] to process p and receives receives[p] from it, also between the process and itself. Sizes
  /// may be 0 and may differ between pairs.
  virtual void all_to_all(std::span<const std::span<const std::byte>> sends,
                          std::span<const std::span<std::byte>> receives, Deadline deadline) = 0;

  /// Releases a call that waits, and refuses later ones, with CollectiveAborted that has `cause`. Any thread;
  /// the first cause is kept.
  virtual void abort(std::string_view cause) noexcept = 0;
};

/// The processes that communicators span: who they are, and how they reach each other. Outlives the
/// communicators that are made with it.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int num_processes() const noexcept = 0;
  /// Position of this process.
  virtual int process() const noexcept = 0;
  /// For messages: "worker 1 (10.0.0.2:2222)".
  virtual const std::string& label(int process) const = 0;
  /// Equal for processes that can share memory.
  virtual int host(int process) const noexcept = 0;

  /// Every process's text, by process. For setting up: it takes some 100 us. All processes make the same
  /// calls in the same order. @param what  for messages: what is exchanged.
  /// @throws CollectiveTimeout, CollectiveAborted
  virtual std::vector<std::string> all_gather(std::string_view what, std::string own) = 0;

  /// For a wait outside the group, which would not end. Any thread.
  /// @throws PeerLost  a process is lost; its message names the operation.
  virtual void throw_if_lost(std::string_view /*operation*/) {}
  /// The same loss, without telling the program of it; null: there is none. Any thread.
  virtual std::shared_ptr<Loss> loss() { return nullptr; }

  /// This process cannot do its part in what all have begun: throw_if_lost throws on all. Any thread.
  virtual void break_off(std::string_view /*cause*/) noexcept {}

  /// A new channel of the engine that connects the processes. All processes open it together.
  /// @throws Unsupported  no engine that suits the group was built: says which to install.
  virtual std::unique_ptr<Channel> open_channel() = 0;
};

/// Which ranks of a communicator are in which process.
struct ProcessRanks {
  ProcessGroup* group = nullptr;
  std::vector<int> num_ranks{};  ///< Of each process; process p's ranks follow those of p - 1.

  /// The first rank of a process; of num_processes(), the number of ranks.
  int begin(int process) const noexcept {
    int rank = 0;
    for (int p = 0; p < process; ++p) rank += num_ranks[static_cast<std::size_t>(p)];
    return rank;
  }
  int own_begin() const noexcept { return begin(group->process()); }
  int own_end() const noexcept { return begin(group->process() + 1); }
  int total() const noexcept { return begin(static_cast<int>(num_ranks.size())); }
};

}  // namespace lockstep::backend

#pragma GCC visibility pop

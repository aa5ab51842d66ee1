#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/cluster/resolver.hpp>

#include "cluster/worker_group.hpp"
#include "processes/launch.hpp"

namespace lockstep::bench {

/// The processes that measure one group of ranks together, as one of them. All make the same calls in the
/// same order, each on one thread at a time. A call throws PeerLost once one of the others has ended or has
/// called break_off.
class Processes {
 public:
  /// This process alone: its calls wait for nobody.
  Processes() = default;
  /// Waits until all processes of the launch have come; the log says who is missing.
  /// @throws as MultiWorkerMirroredStrategy
  explicit Processes(const Launch& launch);

  bool is_alone() const noexcept { return group_ == nullptr; }
  int index() const noexcept { return is_alone() ? 0 : group_->process(); }
  int count() const noexcept { return is_alone() ? 1 : group_->num_processes(); }
  /// For messages: "worker 1 (10.0.0.2:2222)".
  std::string label(int process) const { return is_alone() ? "this process" : group_->label(process); }
  /// How many processes are on this one's host, and which of them it is.
  int count_on_host() const noexcept;
  int index_on_host() const noexcept;
  bool are_on_one_host() const noexcept { return count_on_host() == count(); }

  /// The launch's; null for a process alone.
  std::shared_ptr<cluster::Resolver> resolver() const noexcept { return resolver_; }
  /// @pre not alone.
  backend::ProcessGroup& group() const noexcept { return *group_; }

  /// Every process's text, by process. It takes some 100 us. @param what  for messages: what is exchanged.
  std::vector<std::string> all_gather(std::string_view what, std::string own) const;
  /// Returns when all processes have come. It takes some microseconds on one host, as `gather` does.
  void meet() const;
  /// Every process's numbers, by process, and how many numbers it has may differ.
  std::vector<std::vector<double>> gather(std::span<const double> own) const;
  /// @pre |own| < 2^53.
  std::int64_t sum(std::int64_t own) const;

  /// A group of workers for each set of processes: null where this one is not in it, or is alone in it.
  /// @param members  ascending indices of processes; equal in all processes.
  /// @throws as MultiWorkerMirroredStrategy
  std::vector<std::shared_ptr<detail::WorkerGroup>> connect_groups(
      const std::vector<std::vector<int>>& members) const;

  /// This process cannot go on: the others' calls throw PeerLost, with the cause. Any thread.
  void break_off(const std::string& cause) const noexcept;

 private:
  std::shared_ptr<cluster::Resolver> resolver_;
  std::shared_ptr<detail::WorkerGroup> group_;  // null: alone
};

}  // namespace lockstep::bench

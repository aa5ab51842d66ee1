#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/process_group.hpp>

#include "detail/parking.hpp"
#include "host/memory_communicator.hpp"
#include "host/processes/chain.hpp"
#include "host/processes/exchange.hpp"
#include "host/processes/reduced_part.hpp"

namespace lockstep::host {

/// Collectives between host replicas of several processes, over an engine's channel.
///
/// A reduction is divided among the processes: all ranks' contributions to a process's share come to it; it
/// combines them in rank order, as HostCommunicator does, and sends the result on. A long one goes along the
/// chain of processes instead where that saves traffic. So results have the same bits however ranks are
/// divided into processes.
///
/// The local rank whose thread comes first makes the call for all local ranks; the others wait for it, as
/// their memory is in use.
class EngineCommunicator final : public MemoryCommunicator {
 public:
  /// @param ranks  its group outlives this.
  EngineCommunicator(const backend::ProcessRanks& ranks, std::unique_ptr<backend::Channel> channel);

  int num_ranks() const override { return num_ranks_; }
  void all_reduce(const backend::GroupCall& group) override;
  void reduce(const backend::GroupCall& group) override;
  void broadcast(const backend::GroupCall& group) override;
  void all_gather(const backend::GroupCall& group) override;
  void reduce_scatter(const backend::GroupCall& group) override;
  void transfer(const backend::GroupCall& group) override;
  void abort() noexcept override;

 private:
  /// Each process's parts in one round, by process.
  using Parts = std::vector<std::vector<ReducedPart>>;

  int num_processes() const noexcept { return static_cast<int>(begins_.size()) - 1; }
  int begin(int process) const noexcept { return begins_[static_cast<std::size_t>(process)]; }
  int num_ranks_of(int process) const noexcept { return begin(process + 1) - begin(process); }
  bool is_local(int rank) const noexcept { return rank >= begin(process_) && rank < begin(process_ + 1); }
  int process_of(int rank) const noexcept;

  /// Calls `work()` on the first local thread that comes, and returns when it is done.
  template <class Work>
  void once(const backend::GroupCall& group, const Work& work);

  /// Of all_reduce and reduce, where all ranks' parts are equal. @param root  -1: all receive.
  void reduce_to(const backend::GroupCall& group, int root);
  /// Reduces parts that are the same on all processes, one after the other along the chain.
  void reduce_along_chain(const backend::GroupCall& group, std::span<const ReducedPart> parts);
  /// Brings all contributions to what this process combines, and combines them. Results of other processes'
  /// ranks alone are left in results_.
  void combine(const backend::GroupCall& group, const Parts& parts);
  /// Sends each process's results to the root's, or to all.
  void spread(const backend::GroupCall& group, const Parts& parts, int root);
  /// Copies what the first local rank has received to the others.
  void copy_to_others(const backend::GroupCall& group, std::size_t segment, std::int64_t begin_bytes,
                      std::int64_t size_bytes);

  const std::unique_ptr<backend::Channel> channel_;
  const int process_;
  std::vector<int> begins_;  // of each process's ranks; then their number
  const int num_ranks_;
  Exchange exchange_;
  Chain chain_;
  std::vector<std::byte> contributions_;  // of other processes' ranks to a round's parts
  std::vector<std::byte> results_;
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;

  std::vector<std::uint64_t> num_collectives_;  // of each local rank; its thread's
  std::atomic<std::uint64_t> num_taken_{0};
  std::atomic<std::uint64_t> num_done_{0};
  std::atomic<bool> has_failed_{false};
  std::exception_ptr failure_;  // does not change once has_failed_
  detail::Parking parking_;
};

}  // namespace lockstep::host

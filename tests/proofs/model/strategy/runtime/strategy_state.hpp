#pragma once

#include <lockstep/detail/context_frame.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "cluster/worker_group.hpp"
#include "collectives/rendezvous.hpp"
#include "model.hpp"
#include "strategy/runtime/replica_threads.hpp"
#include "strategy/runtime/run_failures.hpp"

namespace lockstep::detail {

/// In place of a Rendezvous, which has a proof of its own: replicas meet with a mutex. Rank 0's thread
/// checks.
class ModelRendezvous {
 public:
  void meet(int rank, const Arrival& arrival, FunctionRef<void(std::span<const Arrival* const>)> check,
            std::chrono::milliseconds) {
    const auto num_ranks = static_cast<std::uint64_t>(model::num_threads);
    std::unique_lock lock(mutex_);
    if (has_failed_) throw Released{};
    const std::uint64_t meeting = num_checked_ + 1;
    arrivals_[rank] = &arrival;
    ++num_arrived_;
    changed_.notify_all();
    if (rank == 0) {
      changed_.wait(lock, [&] { return num_arrived_ == num_ranks * meeting; });
      check(std::span<const Arrival* const>(arrivals_, num_ranks));
      num_checked_ = meeting;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return num_checked_ >= meeting; });
  }
  void fail(int) {
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
  }
  const std::string& label(int) const { return label_; }

 private:
  model::mutex mutex_;
  model::condition_variable changed_;
  const Arrival* arrivals_[4] = {};
  std::uint64_t num_arrived_ = 0, num_checked_ = 0;
  bool has_failed_ = false;
  std::string label_;
};

/// In place of a StrategyState: what merge calls use of it.
class ModelStrategyState {
 public:
  struct Options {
    std::chrono::milliseconds timeout{0};
  };

  ModelStrategyState() { used_ = this; }
  static ModelStrategyState& of(const Strategy&) noexcept { return *used_; }

  ModelStrategyState& groups() noexcept { return *this; }
  ModelRendezvous& rendezvous() noexcept { return rendezvous_; }
  ModelStrategyState& executor() noexcept { return *this; }
  ReplicaThreads& threads() noexcept { return threads_; }
  WorkerGroup* workers() noexcept { return nullptr; }
  Options options() const noexcept { return {}; }
  int num_local_replicas() const noexcept { return threads_.num_replicas(); }
  int first_replica() const noexcept { return 0; }

 private:
  static inline ModelStrategyState* used_ = nullptr;
  ModelRendezvous rendezvous_;
  ReplicaThreads threads_{model::num_threads};
};

}  // namespace lockstep::detail

#define Rendezvous ModelRendezvous
#define StrategyState ModelStrategyState

#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/input/distribute.hpp>

#include "detail/concat.hpp"

/// Several workers in one process, each on a thread of its own.
namespace lockstep::test {

/// The state that the workers' exchanges of one pass share. Thread-safe.
class WorkerPass {
 public:
  explicit WorkerPass(std::size_t num_workers) : num_sent_(num_workers), has_left_(num_workers) {}

  std::vector<std::string> all_gather(std::size_t worker, std::string message) {
    std::unique_lock lock(mutex_);
    const std::size_t step = num_sent_[worker]++;
    if (steps_.size() <= step) steps_.resize(step + 1, std::vector<std::string>(num_sent_.size()));
    steps_[step][worker] = std::move(message);
    changed_.notify_all();
    std::optional<std::size_t> missing;
    changed_.wait(lock, [&] {
      missing.reset();
      for (std::size_t peer = 0; peer < num_sent_.size() && !missing; ++peer)
        if (num_sent_[peer] <= step) missing = peer;
      return !missing || has_left_[*missing] || has_left_[worker];
    });
    if (missing)
      throw CollectiveAborted(detail::concat("worker ", has_left_[worker] ? worker : *missing,
                                             " has left the pass before step ", step, "."));
    return steps_[step];
  }

  void leave(std::size_t worker) noexcept {
    const std::scoped_lock lock(mutex_);
    has_left_[worker] = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::string>> steps_;
  std::vector<std::size_t> num_sent_;  // by each worker
  std::vector<bool> has_left_;
};

/// One worker's place in a pass.
class LocalExchange final : public detail::StepExchange {
 public:
  LocalExchange(std::shared_ptr<WorkerPass> pass, std::size_t worker)
      : pass_(std::move(pass)), worker_(worker) {}
  ~LocalExchange() override { leave(); }
  std::vector<std::string> all_gather(std::string message) override {
    return pass_->all_gather(worker_, std::move(message));
  }
  void leave() noexcept override { pass_->leave(worker_); }

 private:
  std::shared_ptr<WorkerPass> pass_;  // owners: the workers' exchanges
  std::size_t worker_;
};

/// Workers that start their passes in the same order.
class WorkerGroup {
 public:
  explicit WorkerGroup(int num_workers)
      : state_(std::make_shared<State>(static_cast<std::size_t>(num_workers))) {}

  int num_workers() const { return static_cast<int>(state_->num_open.size()); }
  /// InputTarget::open_exchange of a worker.
  std::function<std::shared_ptr<detail::StepExchange>()> opener(int worker) const {
    return [state = state_, worker = static_cast<std::size_t>(worker)] {
      const std::scoped_lock lock(state->mutex);
      const std::size_t pass = state->num_open[worker]++;
      if (state->passes.size() == pass)
        state->passes.push_back(std::make_shared<WorkerPass>(state->num_open.size()));
      return std::make_shared<LocalExchange>(state->passes[pass], worker);
    };
  }

 private:
  struct State {
    explicit State(std::size_t num_workers) : num_open(num_workers) {}
    std::mutex mutex;
    std::vector<std::size_t> num_open;  // by each worker
    std::vector<std::shared_ptr<WorkerPass>> passes;
  };
  std::shared_ptr<State> state_;  // owners: the group and its openers
};

/// The InputTarget that a strategy of several workers would give for one with these devices.
inline detail::InputTarget worker_target(const WorkerGroup& group, int worker, std::vector<Device> devices,
                                         bool splits = true) {
  const int num_replicas = group.num_workers() * static_cast<int>(devices.size());
  return {.devices = std::move(devices),
          .context = InputContext(group.num_workers(), worker, num_replicas),
          .splits = splits,
          .strategy_name = "WorkersStrategy",
          .open_exchange = group.opener(worker)};
}

/// fn(worker) on a thread for each worker; the results in worker order. @throws the first worker's exception,
/// after all have ended.
template <class F>
auto on_workers(int num_workers, const F& fn) {
  std::vector<std::future<decltype(fn(0))>> running;
  for (int worker = 0; worker < num_workers; ++worker)
    running.push_back(std::async(std::launch::async, [&fn, worker] { return fn(worker); }));
  for (auto& result : running) result.wait();
  std::vector<decltype(fn(0))> results;
  for (auto& result : running) results.push_back(result.get());
  return results;
}

/// The text of the exception that fn throws; empty: none.
template <class F>
std::string message_of(const F& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace lockstep::test

#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "workers/message_exchange.hpp"

namespace lockstep::test {

/// The messages of workers that are threads of one process.
class ExchangeRoom {
 public:
  explicit ExchangeRoom(int num_workers) : num_posted_(static_cast<std::size_t>(num_workers)) {
    for (auto& slots : messages_) slots.resize(num_posted_.size());
  }

 private:
  friend class MemoryExchange;
  void change() {
    ++num_changes_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t num_changes_ = 0;
  std::vector<std::uint64_t> num_posted_;
  std::vector<std::vector<std::byte>> messages_[2];  // of even and of odd rounds
};

/// One worker's side of it.
class MemoryExchange final : public detail::MessageExchange {
 public:
  MemoryExchange(std::shared_ptr<ExchangeRoom> room, int worker) : room_(std::move(room)), worker_(worker) {}

  void post(std::span<const std::byte> message) override {
    const std::lock_guard lock(room_->mutex_);
    ++round_;
    room_->messages_[round_ & 1][static_cast<std::size_t>(worker_)].assign(message.begin(), message.end());
    room_->num_posted_[static_cast<std::size_t>(worker_)] = round_;
    room_->change();
  }
  bool wait(detail::FunctionRef<bool()> stop, backend::Deadline deadline) override {
    std::unique_lock lock(room_->mutex_);
    for (;;) {
      if (std::ranges::all_of(room_->num_posted_, [&](std::uint64_t posted) { return posted >= round_; }))
        return true;
      const std::uint64_t seen = room_->num_changes_;
      lock.unlock();
      if (stop()) return false;
      lock.lock();
      const auto has_changed = [&] { return room_->num_changes_ != seen; };
      if (!deadline)
        room_->changed_.wait(lock, has_changed);
      else if (!room_->changed_.wait_until(lock, *deadline, has_changed))
        return false;
    }
  }
  std::span<const std::byte> message(int worker) const override {
    return room_->messages_[round_ & 1][static_cast<std::size_t>(worker)];
  }
  std::optional<bool> has_arrived(int worker) const override {
    const std::lock_guard lock(room_->mutex_);
    return room_->num_posted_[static_cast<std::size_t>(worker)] >= round_;
  }
  void interrupt() noexcept override {
    const std::lock_guard lock(room_->mutex_);
    room_->change();
  }

 private:
  const std::shared_ptr<ExchangeRoom> room_;
  const int worker_;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::test

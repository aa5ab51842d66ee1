#include "launch_order.hpp"

#include <semaphore>

namespace lockstep::cuda {
namespace {

// A semaphore, as the thread of the last rank gives back what that of the first has taken.
std::binary_semaphore& turn() {
  static std::binary_semaphore& semaphore = *new std::binary_semaphore(1);
  return semaphore;
}

}  // namespace

LaunchOrder::Turn::Turn(LaunchOrder& order, int num_ranks) : order_(order), num_ranks_(num_ranks) {
  std::unique_lock lock(order_.mutex_);
  const bool is_first = order_.num_entered_ == 0;
  order_.num_entered_ += num_ranks_;
  if (is_first) {
    lock.unlock();  // abandon() does not wait for other communicators
    turn().acquire();
    lock.lock();
    order_.has_turn_ = true;
    if (order_.is_abandoned_) order_.release();  // whose last rank will not come
    order_.may_enqueue_.notify_all();
  } else {
    order_.may_enqueue_.wait(lock, [&] { return order_.has_turn_ || order_.is_abandoned_; });
  }
}

LaunchOrder::Turn::~Turn() {
  const std::lock_guard lock(order_.mutex_);
  order_.num_left_ += num_ranks_;
  if (order_.num_left_ < order_.num_ranks_) return;
  order_.num_entered_ = order_.num_left_ = 0;
  order_.release();
}

void LaunchOrder::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  is_abandoned_ = true;
  release();
  may_enqueue_.notify_all();
}

void LaunchOrder::release() noexcept {
  if (has_turn_) turn().release();
  has_turn_ = false;
}

}  // namespace lockstep::cuda

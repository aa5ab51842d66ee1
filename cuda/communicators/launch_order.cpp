#include "communicators/launch_order.hpp"

#include <semaphore>

#include "detail/immortal.hpp"

namespace lockstep::cuda {
namespace {

// A semaphore, not a mutex: the first rank's thread takes it, and the last rank's thread gives it back.
struct TurnSemaphore : std::binary_semaphore {
  TurnSemaphore() : std::binary_semaphore(1) {}
};
TurnSemaphore& turn() { return lockstep::detail::immortal<TurnSemaphore>(); }

}  // namespace

LaunchOrder::Alone::Alone() noexcept { turn().acquire(); }
LaunchOrder::Alone::~Alone() { turn().release(); }

LaunchOrder::Turn::Turn(LaunchOrder& order, int num_ranks) : order_(order), num_ranks_(num_ranks) {
  is_inside_ = order_.all_in_.arrive_and_wait(num_ranks_);
  if (!is_inside_) return;
  // All ranks' threads are here, and will leave.
  const std::lock_guard lock(order_.mutex_);
  if (order_.num_entered_ == 0) {
    turn().acquire();
    order_.has_turn_ = true;
  }
  order_.num_entered_ += num_ranks_;
}

LaunchOrder::Turn::~Turn() {
  if (is_inside_) leave();
}

void LaunchOrder::Turn::end() {
  if (!is_inside_) return;
  leave();
  order_.all_out_.arrive_and_wait(num_ranks_);
}

void LaunchOrder::Turn::leave() noexcept {
  is_inside_ = false;
  const std::lock_guard lock(order_.mutex_);
  order_.num_left_ += num_ranks_;
  if (order_.num_left_ < order_.num_ranks_) return;
  order_.num_entered_ = order_.num_left_ = 0;
  order_.release();
}

void LaunchOrder::abandon() noexcept {
  all_in_.fail();
  all_out_.fail();
  release();
}

void LaunchOrder::release() noexcept {
  if (has_turn_.exchange(false)) turn().release();
}

}  // namespace lockstep::cuda

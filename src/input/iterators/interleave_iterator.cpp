#include "input/iterators/interleave_iterator.hpp"

#include <algorithm>

#include "input/pipeline/element_error.hpp"
#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

void ReadySignal::give() {
  const std::scoped_lock lock(mutex_);
  ++count_;
  changed_.notify_all();
}

std::uint64_t ReadySignal::count() const {
  const std::scoped_lock lock(mutex_);
  return count_;
}

void ReadySignal::wait_past(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, current_stop_token(), [&] { return count_ != count; })) throw Stopped();
}

void InterleaveIterator::go_to(std::int64_t slot) noexcept {
  if (slot != slot_) block_ = 0;
  slot_ = slot;
}

void InterleaveIterator::fill() {
  std::optional<FlatElement> element = input_->next();
  if (!element) {
    input_.reset();
    return;
  }
  Slot& slot = cycle_[static_cast<std::size_t>(slot_)];
  const std::int64_t index = index_++;
  slot.pass = call_for_element(what_, index, [&] { return fn_(std::move(*element), index); });
  if (slot_ < num_threads_) {
    auto input = std::make_shared<std::unique_ptr<Iterator<FlatElement>>>(std::move(slot.pass));
    auto ahead = std::make_unique<PrefetchIterator<FlatElement>>([input] { return std::move(*input); }, 1,
                                                                 [ready = ready_] { ready->give(); });
    ahead->start();
    slot.ahead = ahead.get();
    slot.pass = std::move(ahead);
  }
  ++num_open_;
}

void InterleaveIterator::go_to_ready() {
  for (std::int64_t slot = 0; input_ && slot < std::min(num_threads_, cycle_length_); ++slot) {
    if (static_cast<std::size_t>(slot) == cycle_.size()) cycle_.emplace_back();
    if (cycle_[static_cast<std::size_t>(slot)].pass) continue;
    go_to(slot);
    fill();
  }
  while (num_open_ > 0) {
    const std::uint64_t count = ready_->count();  // read before looking, so that no signal is missed
    const auto num_slots = static_cast<std::int64_t>(cycle_.size());
    for (std::int64_t i = 0; i < num_slots; ++i) {
      const std::int64_t candidate = (slot_ + i) % num_slots;
      const Slot& slot = cycle_[static_cast<std::size_t>(candidate)];
      if (!slot.pass || (slot.ahead && !slot.ahead->is_ready())) continue;
      go_to(candidate);
      return;
    }
    ready_->wait_past(count);
  }
}

std::optional<FlatElement> InterleaveIterator::next() {
  const auto advance = [this] {
    slot_ = (slot_ + 1) % cycle_length_;
    block_ = 0;
  };
  while (input_ || num_open_ > 0) {
    if (takes_ready_) go_to_ready();
    const auto slot = static_cast<std::size_t>(slot_);
    if (slot == cycle_.size()) {
      if (input_)
        cycle_.emplace_back();
      else
        cycle_length_ = slot_;  // slots beyond it are never filled
    }
    if (slot == static_cast<std::size_t>(cycle_length_)) {
      slot_ = 0;
    } else if (cycle_[slot].pass) {
      if (std::optional<FlatElement> element = cycle_[slot].pass->next()) {
        if (++block_ == block_length_) advance();
        return element;
      }
      cycle_[slot] = {};
      --num_open_;
      advance();
    } else if (input_) {
      fill();
    } else {
      advance();
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::detail

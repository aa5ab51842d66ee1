#include "input/iterators/interleave_iterator.hpp"

#include <algorithm>

#include "input/pipeline/element_error.hpp"
#include "input/pipeline/stopping.hpp"
#include "input/state/pipeline_state.hpp"

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
  slot.element = std::move(*element);
  slot.index = index_++;
  open(slot, slot_ < num_threads());
  if (slot.ahead) slot.ahead->start();
  ++num_open_;
}

void InterleaveIterator::open(Slot& slot, bool has_thread) {
  FlatElement element;  // the function may write to its own
  for (const Tensor& leaf : slot.element) element.push_back(leaf.clone());
  OpenedPart part = call_for_element(what_, slot.index, [&] { return fn_(std::move(element), slot.index); });
  slot.pipeline = std::move(part.pipeline);
  slot.pass = std::move(part.pass);
  if (has_thread) read_ahead(slot);
}

void InterleaveIterator::read_ahead(Slot& slot) {
  auto input = std::make_shared<std::unique_ptr<Iterator<FlatElement>>>(std::move(slot.pass));
  auto ahead = std::make_unique<PrefetchIterator<FlatElement>>([input] { return std::move(*input); }, 1,
                                                               [ready = ready_] { ready->give(); });
  slot.ahead = ahead.get();
  slot.pass = std::move(ahead);
}

std::optional<FlatElement> InterleaveIterator::next_of(std::size_t index) {
  Slot& slot = cycle_[index];
  if (!threads_.is_automatic()) return slot.pass->next();
  if (!slot.ahead && static_cast<std::int64_t>(index) < num_threads()) {
    read_ahead(slot);
    slot.ahead->start();
  }
  const bool is_ready = slot.ahead && slot.ahead->is_ready();
  std::optional<FlatElement> element = slot.pass->next();
  threads_.count(!is_ready, is_ready);
  return element;
}

void InterleaveIterator::transfer(PassState& state, Slot& slot, bool has_thread) {
  if (!state.flag(slot.pass != nullptr)) return;
  if (threads_.is_automatic()) has_thread = state.flag(slot.ahead != nullptr);
  state(slot.element, slot.index);
  if (!slot.pass) open(slot, has_thread);
  transfer_stages(state, *slot.pipeline);
  state(*slot.pass);
}

void InterleaveIterator::transfer(PassState& state) {
  state(input_, index_, cycle_length_, slot_, block_);
  const std::size_t num_slots = state.length(cycle_.size());
  if (cycle_length_ < (input_ ? 1 : 0) || slot_ < 0 || slot_ > cycle_length_ ||
      num_slots > static_cast<std::size_t>(cycle_length_) || static_cast<std::size_t>(slot_) > num_slots)
    state.fail("there is no such place in the cycle");
  num_open_ = 0;
  for (std::size_t i = 0; i < num_slots; ++i) {
    if (i == cycle_.size()) cycle_.emplace_back();
    transfer(state, cycle_[i], static_cast<std::int64_t>(i) < num_threads());
    if (cycle_[i].pass) ++num_open_;
  }
  starts_threads_ = !state.is_saving();
}

void InterleaveIterator::start_threads() {
  for (const Slot& slot : cycle_)
    if (slot.ahead) slot.ahead->start();
  starts_threads_ = false;
}

void InterleaveIterator::go_to_ready() {
  for (std::int64_t slot = 0; input_ && slot < std::min(num_threads(), cycle_length_); ++slot) {
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
  if (starts_threads_) start_threads();
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
      if (std::optional<FlatElement> element = next_of(slot)) {
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

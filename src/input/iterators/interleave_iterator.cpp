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

void InterleaveIterator::go_to(std::int64_t place) noexcept {
  if (place != place_) block_ = 0;
  place_ = place;
}

void InterleaveIterator::fill() {
  std::optional<FlatElement> element = input_->next();
  if (!element) {
    input_.reset();
    return;
  }
  Place& place = cycle_[static_cast<std::size_t>(place_)];
  const std::int64_t index = index_++;
  place.pass =
      call_for_element("Dataset::interleave", index, [&] { return fn_(std::move(*element), index); });
  if (place_ < num_threads_) {
    auto input = std::make_shared<std::unique_ptr<Iterator<FlatElement>>>(std::move(place.pass));
    auto ahead = std::make_unique<PrefetchIterator<FlatElement>>([input] { return std::move(*input); }, 1,
                                                                 [ready = ready_] { ready->give(); });
    ahead->start();
    place.ahead = ahead.get();
    place.pass = std::move(ahead);
  }
  ++num_open_;
}

void InterleaveIterator::go_to_ready() {
  for (std::int64_t place = 0; input_ && place < std::min(num_threads_, cycle_length_); ++place) {
    if (static_cast<std::size_t>(place) == cycle_.size()) cycle_.emplace_back();
    if (cycle_[static_cast<std::size_t>(place)].pass) continue;
    go_to(place);
    fill();
  }
  while (num_open_ > 0) {
    const std::uint64_t count = ready_->count();  // read before looking, so that no signal is missed
    const auto num_places = static_cast<std::int64_t>(cycle_.size());
    for (std::int64_t i = 0; i < num_places; ++i) {
      const std::int64_t candidate = (place_ + i) % num_places;
      const Place& place = cycle_[static_cast<std::size_t>(candidate)];
      if (!place.pass || (place.ahead && !place.ahead->is_ready())) continue;
      go_to(candidate);
      return;
    }
    ready_->wait_past(count);
  }
}

std::optional<FlatElement> InterleaveIterator::next() {
  const auto advance = [this] {
    place_ = (place_ + 1) % cycle_length_;
    block_ = 0;
  };
  while (input_ || num_open_ > 0) {
    if (takes_ready_) go_to_ready();
    const auto place = static_cast<std::size_t>(place_);
    if (place == cycle_.size()) {
      if (input_)
        cycle_.emplace_back();
      else
        cycle_length_ = place_;  // places beyond it are never filled
    }
    if (place == static_cast<std::size_t>(cycle_length_)) {
      place_ = 0;
    } else if (cycle_[place].pass) {
      if (std::optional<FlatElement> element = cycle_[place].pass->next()) {
        if (++block_ == block_length_) advance();
        return element;
      }
      cycle_[place] = {};
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

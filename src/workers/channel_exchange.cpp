#include "workers/channel_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "detail/start_thread.hpp"

namespace lockstep::detail {

ChannelExchange::ChannelExchange(std::unique_ptr<backend::Channel> channel, int num_workers)
    : channel_(std::move(channel)),
      num_workers_(static_cast<std::size_t>(num_workers)),
      blocks_(num_workers_ * kBlockBytes),
      messages_(num_workers_),
      thread_(start_thread("the thread of the workers' messages", [this] { run(); })) {}

ChannelExchange::~ChannelExchange() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  channel_->abort("the strategy was destroyed");
  thread_.join();
}

void ChannelExchange::post(std::span<const std::byte> message) {
  {
    const std::lock_guard lock(mutex_);
    own_.assign(message.begin(), message.end());
    ++num_posted_;
  }
  changed_.notify_all();
}

bool ChannelExchange::wait(FunctionRef<bool()> stop, backend::Deadline deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (num_complete_ == num_posted_) return true;
    const std::uint64_t seen = num_interrupts_;
    const std::exception_ptr error = error_;
    lock.unlock();
    if (stop()) return false;
    if (error) raise_end(error);
    lock.lock();
    const auto has_changed = [&] {
      return num_complete_ == num_posted_ || num_interrupts_ != seen || error_ != nullptr;
    };
    if (!deadline)
      changed_.wait(lock, has_changed);
    else if (!changed_.wait_until(lock, *deadline, has_changed))
      return false;
  }
}

std::span<const std::byte> ChannelExchange::message(int worker) const {
  return messages_[static_cast<std::size_t>(worker)];
}

void ChannelExchange::interrupt() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ++num_interrupts_;
  }
  changed_.notify_all();
}

void ChannelExchange::raise_end(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::exception& failure) {  // a lack of memory, which the first call tells
    if (!std::exchange(has_told_, true)) throw;
    raise<CollectiveAborted>({__FILE__, __LINE__, __func__},
                             concat("The workers' messages have ended in a call before: ", failure.what(),
                                    ". Make a new strategy on all workers."));
  }
}

void ChannelExchange::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_ending_ || num_posted_ != num_complete_; });
    if (is_ending_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      exchange();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      error_ = error;
      changed_.notify_all();
      return;
    }
    ++num_complete_;
    changed_.notify_all();
  }
}

void ChannelExchange::exchange() {
  using Size = std::uint64_t;
  constexpr std::size_t kInBlock = kBlockBytes - sizeof(Size);
  std::byte block[kBlockBytes] = {};
  const Size own_size = own_.size();
  std::memcpy(block, &own_size, sizeof own_size);
  std::copy_n(own_.begin(), std::min<std::size_t>(own_size, kInBlock), block + sizeof own_size);
  channel_->all_gather(block, blocks_, {});

  const auto size_of_message = [&](std::size_t w) {
    Size size = 0;
    std::memcpy(&size, blocks_.data() + w * kBlockBytes, sizeof size);
    return static_cast<std::size_t>(size);
  };
  std::size_t longest = 0;
  for (std::size_t w = 0; w < num_workers_; ++w) longest = std::max(longest, size_of_message(w));
  if (longest > kInBlock) {
    longest -= kInBlock;
    rests_.resize(num_workers_ * longest);
    std::vector<std::byte> rest(longest);
    if (own_size > kInBlock) std::copy(own_.begin() + kInBlock, own_.end(), rest.begin());
    channel_->all_gather(rest, rests_, {});
  }
  for (std::size_t w = 0; w < num_workers_; ++w) {
    const std::byte* const begin = blocks_.data() + w * kBlockBytes + sizeof(Size);
    const std::size_t size = size_of_message(w);
    messages_[w].assign(begin, begin + std::min(size, kInBlock));
    if (size > kInBlock) {
      const std::byte* const rest = rests_.data() + w * longest;
      messages_[w].insert(messages_[w].end(), rest, rest + (size - kInBlock));
    }
  }
}

}  // namespace lockstep::detail

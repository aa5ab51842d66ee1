#include "workers/shared_memory/shared_message_exchange.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace lockstep::detail {

namespace {
constexpr std::size_t kSlotBytes = 16 << 10;
constexpr std::size_t kPartBytes = kSlotBytes - 2 * sizeof(std::uint32_t);
}  // namespace

struct alignas(64) SharedMessageExchange::Slot {
  std::atomic<std::uint32_t> stamp;  // the round of what follows
  std::uint32_t size_bytes;          // of the whole message
  std::byte part[kPartBytes];
};

std::size_t SharedMessageExchange::bytes_per_worker() noexcept { return 2 * sizeof(Slot); }

SharedMessageExchange::SharedMessageExchange(std::shared_ptr<SharedSegment> segment, int worker)
    : segment_(std::move(segment)),
      parking_(*reinterpret_cast<SharedParking*>(segment_->common().data())),
      worker_(static_cast<std::size_t>(worker)),
      messages_(static_cast<std::size_t>(segment_->num_parts())),
      assembled_(messages_.size()) {
  static_assert(sizeof(Slot) == kSlotBytes);
}

SharedMessageExchange::Slot& SharedMessageExchange::slot(std::size_t worker) const noexcept {
  return reinterpret_cast<Slot*>(segment_->part(static_cast<int>(worker)).data())[round_ % 2];
}

void SharedMessageExchange::post(std::span<const std::byte> message) {
  assert(is_complete_);
  is_complete_ = false;
  size_bytes_ = message.size();
  num_taken_bytes_ = 0;
  const auto first = message.first(std::min(message.size(), kPartBytes));
  rest_.assign(message.begin() + static_cast<std::ptrdiff_t>(first.size()), message.end());
  post_part(first);
}

void SharedMessageExchange::post_part(std::span<const std::byte> part) {
  ++round_;
  Slot& own = slot(worker_);
  own.size_bytes = static_cast<std::uint32_t>(size_bytes_);
  std::ranges::copy(part, own.part);
  own.stamp.store(round_, std::memory_order_seq_cst);
  parking_.wake();
}

bool SharedMessageExchange::wait(FunctionRef<bool()> stop, backend::Deadline deadline) {
  while (!is_complete_) {
    if (!wait_for_part(stop, deadline)) return false;
    take_part();
  }
  return true;
}

bool SharedMessageExchange::wait_for_part(FunctionRef<bool()> stop, const backend::Deadline& deadline) {
  std::size_t next = 0;  // all workers before it have posted
  const auto all_have_posted = [&] {
    while (next < messages_.size() && slot(next).stamp.load(std::memory_order_seq_cst) == round_) ++next;
    return next == messages_.size();
  };
  std::uint32_t num_seen = num_interrupts_.load(std::memory_order_seq_cst);
  if (all_have_posted()) return true;
  if (stop()) return false;
  bool stopped = false;
  const auto ready = [&] {
    if (all_have_posted()) return true;
    const std::uint32_t now = num_interrupts_.load(std::memory_order_seq_cst);
    if (now != std::exchange(num_seen, now)) stopped = stop();
    return stopped;
  };
  return parking_.wait(messages_.size(), ready, deadline) && !stopped;
}

void SharedMessageExchange::take_part() {
  std::size_t longest = 0;
  for (std::size_t worker = 0; worker < messages_.size(); ++worker)
    longest = std::max<std::size_t>(longest, slot(worker).size_bytes);
  is_complete_ = longest <= num_taken_bytes_ + kPartBytes;
  for (std::size_t worker = 0; worker < messages_.size(); ++worker) {
    const Slot& theirs = slot(worker);
    const std::size_t taken = std::min<std::size_t>(num_taken_bytes_, theirs.size_bytes);
    const std::span part(theirs.part, std::min(kPartBytes, theirs.size_bytes - taken));
    if (longest <= kPartBytes) {
      messages_[worker] = part;
      continue;
    }
    std::vector<std::byte>& whole = assembled_[worker];
    if (num_taken_bytes_ == 0) whole.clear();
    whole.insert(whole.end(), part.begin(), part.end());
    messages_[worker] = whole;
  }
  if (is_complete_) return;
  // Of rest_, which begins behind the first part. A shorter message's later parts are empty.
  const std::span rest = std::span(rest_).subspan(std::min(num_taken_bytes_, rest_.size()));
  num_taken_bytes_ += kPartBytes;
  post_part(rest.first(std::min(rest.size(), kPartBytes)));
}

std::optional<bool> SharedMessageExchange::has_arrived(int worker) const {
  return slot(static_cast<std::size_t>(worker)).stamp.load(std::memory_order_relaxed) == round_;
}

void SharedMessageExchange::interrupt() noexcept {
  num_interrupts_.fetch_add(1, std::memory_order_seq_cst);
  parking_.wake();
}

std::unique_ptr<MessageExchange> make_shared_message_exchange(backend::ProcessGroup& group) {
  const std::vector<std::size_t> part_bytes(static_cast<std::size_t>(group.num_processes()),
                                            SharedMessageExchange::bytes_per_worker());
  return std::make_unique<SharedMessageExchange>(
      std::make_shared<SharedSegment>(group, "exchange of messages between workers", part_bytes),
      group.process());
}

}  // namespace lockstep::detail

#include "host/processes/exchange.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::host {
namespace {

// Between two processes: long enough that what a round costs, some 100 us, is little beside it.
constexpr std::int64_t kRoundBytes = std::int64_t{4} << 20;

}  // namespace

void ByteStream::add(void* data, std::int64_t size_bytes) {
  if (size_bytes == 0) return;
  auto* const bytes = static_cast<std::byte*>(data);
  const std::int64_t begin = blocks_.empty() ? 0 : blocks_.back().end;
  if (!blocks_.empty() && blocks_.back().data + (begin - blocks_.back().begin) == bytes)
    blocks_.back().end += size_bytes;
  else
    blocks_.push_back({bytes, begin, begin + size_bytes});
}

template <class F>
void ByteStream::for_each_piece(std::int64_t begin, std::size_t size, const F& f) const {
  const std::int64_t end = begin + static_cast<std::int64_t>(size);
  auto block = std::ranges::upper_bound(blocks_, begin, {}, &Block::end);
  for (std::int64_t at = begin; at < end; ++block) {
    const std::int64_t piece_end = std::min(block->end, end);
    f(block->data + (at - block->begin), at - begin, static_cast<std::size_t>(piece_end - at));
    at = piece_end;
  }
}

std::span<std::byte> ByteStream::room(std::int64_t begin, std::int64_t most) {
  const std::int64_t size = blocks_.empty() ? 0 : std::min(most, blocks_.back().end - begin);
  if (size <= 0) return {};
  const auto block = std::ranges::upper_bound(blocks_, begin, {}, &Block::end);
  if (begin + size <= block->end)
    return {block->data + (begin - block->begin), static_cast<std::size_t>(size)};
  if (scratch_bytes_ < size) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(size));
    scratch_bytes_ = size;
  }
  return {scratch_.get(), static_cast<std::size_t>(size)};
}

std::span<std::byte> ByteStream::packed(std::int64_t begin, std::int64_t most) {
  const std::span<std::byte> together = room(begin, most);
  if (together.data() == scratch_.get()) {
    for_each_piece(begin, together.size(), [&](const std::byte* data, std::int64_t offset, std::size_t size) {
      std::memcpy(together.data() + offset, data, size);
    });
  }
  return together;
}

void ByteStream::unpack(std::int64_t begin, std::span<const std::byte> room) const {
  if (room.data() != scratch_.get()) return;
  for_each_piece(begin, room.size(), [&](std::byte* data, std::int64_t offset, std::size_t size) {
    std::memcpy(data, room.data() + offset, size);
  });
}

Exchange::Exchange(backend::Channel& channel, int process, int num_processes)
    : channel_(channel),
      process_(static_cast<std::size_t>(process)),
      sent_(static_cast<std::size_t>(num_processes)),
      received_(sent_.size()),
      sends_(sent_.size()),
      receives_(sent_.size()) {}

void Exchange::send(int process, const void* data, std::int64_t size_bytes) {
  sent_[static_cast<std::size_t>(process)].add(const_cast<void*>(data), size_bytes);  // which is only read
}

void Exchange::receive(int process, void* data, std::int64_t size_bytes) {
  received_[static_cast<std::size_t>(process)].add(data, size_bytes);
}

void Exchange::run(std::int64_t largest) {
  for (std::int64_t begin = 0; begin < largest; begin += kRoundBytes) {
    for (std::size_t p = 0; p < sends_.size(); ++p) {
      sends_[p] = sent_[p].packed(begin, kRoundBytes);
      receives_[p] = received_[p].room(begin, kRoundBytes);
    }
    channel_.all_to_all(sends_, receives_, deadline());
    for (std::size_t p = 0; p < sends_.size(); ++p) received_[p].unpack(begin, receives_[p]);
  }
  clear();
}

void Exchange::run_broadcast(int root, std::int64_t size_bytes) {
  const auto source = static_cast<std::size_t>(root);
  for (std::int64_t begin = 0; begin < size_bytes; begin += kRoundBytes) {
    if (process_ == source) {
      channel_.broadcast(sent_[source].packed(begin, kRoundBytes), root, deadline());
    } else {
      const std::span<std::byte> room = received_[source].room(begin, kRoundBytes);
      channel_.broadcast(room, root, deadline());
      received_[source].unpack(begin, room);
    }
  }
  clear();
}

backend::Deadline Exchange::deadline() const {
  if (time_limit_.count() == 0) return std::nullopt;
  return std::chrono::steady_clock::now() + time_limit_;
}

void Exchange::clear() noexcept {
  for (ByteStream& stream : sent_) stream.clear();
  for (ByteStream& stream : received_) stream.clear();
}

}  // namespace lockstep::host

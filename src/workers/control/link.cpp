#include "workers/control/link.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace lockstep::detail::control {
namespace {

constexpr std::size_t kReadBytes = 1 << 16;
constexpr int kMaxReads = 64;  // at a time: whoever sends without end does not keep the others waiting

}  // namespace

Link::Link(FileDescriptor socket, FrameLimits limits) : socket_(std::move(socket)), limits_(limits) {}

void Link::send(Message message) {
  if (is_closed_ || is_ending_) return;
  const bool is_first = !has_unsent();
  const std::size_t size = unsent_.size();
  try {
    encode(std::move(message), unsent_);
  } catch (...) {
    unsent_.resize(size);  // no part of a frame
    throw;
  }
  if (is_first) flush();
}

void Link::flush() {
  while (has_unsent() && !is_closed_) {
    const auto sent = retry_interrupted([&] {
      return ::send(socket_.get(), unsent_.data() + num_sent_, unsent_.size() - num_sent_, MSG_NOSIGNAL);
    });
    if (sent < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      break_off(errno);  // receive tells, after what has come before
      break;
    }
    num_sent_ += static_cast<std::size_t>(sent);
  }
  unsent_.clear();
  num_sent_ = 0;
  if (is_ending_) static_cast<void>(::shutdown(socket_.get(), SHUT_WR));
}

void Link::break_off(int error) {
  if (error_ == 0 && error != ECONNRESET && error != EPIPE) error_ = error;
  static_cast<void>(::shutdown(socket_.get(), SHUT_RDWR));
}

void Link::receive() {
  std::array<char, kReadBytes> bytes;
  for (int i = 0; i < kMaxReads && !is_closed_; ++i) {
    const std::size_t num_waiting = received_.size() - num_taken_;
    if (num_waiting >= limits_.max_bytes) return;
    const std::size_t room = std::min(bytes.size(), limits_.max_bytes - num_waiting);
    const auto size = retry_interrupted([&] { return ::recv(socket_.get(), bytes.data(), room, 0); });
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (size < 0) break_off(errno);
    if (size <= 0) {
      is_closed_ = true;
      return;
    }
    received_.append(bytes.data(), static_cast<std::size_t>(size));
    last_heard_ = std::chrono::steady_clock::now();
    if (static_cast<std::size_t>(size) < room) return;
  }
}

std::optional<Message> Link::next() {
  auto decoded = decode(std::string_view(received_).substr(num_taken_), limits_);
  if (!decoded) {
    received_.erase(0, num_taken_);
    num_taken_ = 0;
    return std::nullopt;
  }
  num_taken_ += decoded->num_bytes;
  return std::move(decoded->message);
}

void Link::end() {
  is_ending_ = true;
  flush();
}

}  // namespace lockstep::detail::control

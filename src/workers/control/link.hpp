#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "detail/file_descriptor.hpp"
#include "workers/control/wire.hpp"

namespace lockstep::detail::control {

/// A connection that carries messages. Nothing waits. Not thread-safe.
class Link {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Link(FileDescriptor socket, FrameLimits limits = {});

  /// Sends what the socket takes; flush sends the rest when poll says that it takes more.
  void send(Message message);
  void flush();
  bool has_unsent() const noexcept { return num_sent_ < unsent_.size(); }

  /// Takes what has come from the socket, for `next`, but not more than one frame may have. What has come
  /// before the end can still be taken after it.
  void receive();
  /// @throws WireError  the peer does not speak the protocol.
  std::optional<Message> next();

  /// Whether the peer has ended the connection, or it is broken.
  bool is_closed() const noexcept { return is_closed_; }
  /// The system's error that broke it. 0: none, or the peer's end.
  int error() const noexcept { return error_; }
  /// When something came; at first, when it was made.
  Time last_heard() const noexcept { return last_heard_; }

  /// Nothing more will be sent: the peer sees the end after what was sent before.
  void end();

  void set_limits(FrameLimits limits) noexcept { limits_ = limits; }
  int get() const noexcept { return socket_.get(); }

 private:
  /// Nothing more is sent, so that the peer learns of it, and `receive` comes to the end.
  void break_off(int error);

  FileDescriptor socket_;
  FrameLimits limits_;
  std::string unsent_{}, received_{};
  std::size_t num_sent_ = 0, num_taken_ = 0;  // of these
  bool is_closed_ = false, is_ending_ = false;
  int error_ = 0;
  Time last_heard_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep::detail::control

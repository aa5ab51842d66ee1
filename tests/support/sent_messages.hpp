#pragma once

#include <functional>

#include "workers/control/wire.hpp"

namespace lockstep::test {

/// Sees the messages of this process's control connections before they are sent, on the thread that sends
/// them, as long as it lives. What it throws the send throws. Link sent_messages.cpp. One at a time.
class SentMessages {
 public:
  using See = std::function<void(const detail::control::Message& message)>;

  explicit SentMessages(See see);
  ~SentMessages();
  SentMessages(const SentMessages&) = delete;
  SentMessages& operator=(const SentMessages&) = delete;

 private:
  const See see_;
};

}  // namespace lockstep::test

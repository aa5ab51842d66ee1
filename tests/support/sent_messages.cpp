#include "support/sent_messages.hpp"

#include <atomic>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/socket.h>

namespace lockstep::test {
namespace {

using namespace detail::control;

std::atomic<const SentMessages::See*> current{nullptr};

/// Takes the first message from the bytes; nothing: they are those of something else, or a part.
std::optional<Message> take(std::string_view& bytes) try {
  auto decoded = decode(bytes);
  if (!decoded) return std::nullopt;
  bytes.remove_prefix(decoded->num_bytes);
  return std::move(decoded->message);
} catch (const WireError&) {
  return std::nullopt;
}

}  // namespace

SentMessages::SentMessages(See see) : see_(std::move(see)) { current = &see_; }
SentMessages::~SentMessages() { current = nullptr; }

}  // namespace lockstep::test

// In place of the C library's.
extern "C" ssize_t send(int socket, const void* data, size_t size, int flags) {
  using namespace lockstep::test;
  if (const SentMessages::See* const see = current) {
    std::string_view bytes(static_cast<const char*>(data), size);
    while (const auto message = take(bytes)) (*see)(*message);
  }
  return ::sendto(socket, data, size, flags, nullptr, 0);
}

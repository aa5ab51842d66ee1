#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <poll.h>
#include <sys/socket.h>

#include "workers/control/control_fixture.hpp"
#include "workers/control/proof.hpp"
#include "workers/control/socket.hpp"
#include "workers/control/wire.hpp"

namespace lockstep::test {

inline std::string frame(detail::control::Message message) {
  std::string bytes;
  encode(std::move(message), bytes);
  return bytes;
}

/// Takes the first message from the bytes; nothing: it is not there.
inline std::optional<detail::control::Message> take_message(std::string& bytes) {
  auto decoded = detail::control::decode(bytes);
  if (!decoded) return std::nullopt;
  bytes.erase(0, decoded->num_bytes);
  return std::move(decoded->message);
}

/// Somebody who connects, and sends these bytes.
class Stranger {
 public:
  explicit Stranger(const std::string& address, std::string_view bytes = {}) {
    using namespace std::chrono_literals;
    std::string why;
    while (!socket_.is_open()) socket_ = try_connect(detail::control::parse_address(address), 1s, why);
    send(bytes);
  }
  void send(std::string_view bytes) const {
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  /// As much as the socket takes now. @return how much.
  std::size_t send_some(std::string_view bytes) const {
    const auto size = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return size < 0 ? 0 : static_cast<std::size_t>(size);
  }
  /// Sends this hello with the proof of a token, as a worker does, once the challenge has come.
  void join(std::string_view token, const std::string& hello) const {
    using namespace detail::control;
    std::string bytes;
    std::optional<Message> message;
    while (!(message = take_message(bytes))) {
      char byte = 0;
      pollfd watched{socket_.get(), POLLIN, 0};
      if (::poll(&watched, 1, 30'000) != 1 || ::recv(socket_.get(), &byte, 1, 0) != 1) return;
      bytes += byte;
    }
    Join own{.nonce = random_nonce(), .hello = hello};
    own.proof = prove(token, Prover::worker, std::get<Challenge>(*message).nonce, own.nonce, own.hello);
    send(frame(own));
  }
  /// What comes until the end of the connection, or for so long.
  std::string read(std::chrono::milliseconds limit = std::chrono::seconds(30)) const {
    std::string text;
    char bytes[4096];
    const auto end = Clock::now() + limit;
    for (;;) {
      pollfd watched{socket_.get(), POLLIN, 0};
      const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (rest <= 0 || ::poll(&watched, 1, static_cast<int>(rest)) == 0) return text + "(still open)";
      const auto size = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (size <= 0) return text;
      text.append(bytes, static_cast<std::size_t>(size));
    }
  }
  /// The same without the challenge.
  std::string answer() const {
    std::string text = read();
    static_cast<void>(take_message(text));
    return text;
  }

 private:
  detail::FileDescriptor socket_;
};

}  // namespace lockstep::test

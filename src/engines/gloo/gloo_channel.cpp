#include "engines/gloo/gloo_channel.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "engines/gloo/no_sigpipe.hpp"

namespace lockstep::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds time_until(backend::Deadline deadline) {
  constexpr std::chrono::hours kForEver{24 * 365};
  if (!deadline) return kForEver;
  return std::clamp(std::chrono::ceil<milliseconds>(*deadline - steady_clock::now()), milliseconds(0),
                    milliseconds(kForEver));
}

}  // namespace

GlooChannel::GlooChannel(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {
  set_place(context_->rank, context_->size);
}

void GlooChannel::Message::post(std::uint64_t slot) {
  if (is_send)
    buffer->send(peer, slot);
  else
    buffer->recv(peer, slot);
}

bool GlooChannel::Message::wait(backend::Deadline deadline) {
  const milliseconds time = time_until(deadline);
  return is_send ? buffer->waitSend(time) : buffer->waitRecv(time);
}

void GlooChannel::Message::abort_wait() {
  if (is_send)
    buffer->abortWaitSend();
  else
    buffer->abortWaitRecv();
}

void GlooChannel::add_send(std::vector<Message>& messages, int peer, std::span<const std::byte> bytes) const {
  if (bytes.empty()) return;
  // Gloo has one type of buffer for both directions.
  auto* const data = const_cast<std::byte*>(bytes.data());
  messages.push_back({peer, true, context_->createUnboundBuffer(data, bytes.size())});
}

void GlooChannel::add_receive(std::vector<Message>& messages, int peer, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  messages.push_back({peer, false, context_->createUnboundBuffer(bytes.data(), bytes.size())});
}

void GlooChannel::run(std::string_view operation, std::uint64_t call, std::vector<Message> messages,
                      backend::Deadline deadline) {
  const NoSigpipe no_sigpipe;
  {
    const std::lock_guard lock(mutex_);
    cause_.raise_if_set(operation, "gloo");
    messages_ = std::move(messages);
  }
  int peer = 0;
  try {
    for (Message& message : messages_) {
      peer = message.peer;
      message.post(call);
    }
    for (Message& message : messages_) {
      peer = message.peer;
      if (!message.wait(deadline)) fail(operation, peer, "", deadline);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // Gloo's
    fail(operation, peer, error.what(), deadline);
  }
  const std::lock_guard lock(mutex_);
  messages_.clear();
}

void GlooChannel::fail(std::string_view operation, int peer, const char* reason, backend::Deadline deadline) {
  const bool is_late = deadline && steady_clock::now() >= *deadline && !cause_.is_set();
  cause_.set(is_late
                 ? detail::concat("a call before did not end within its time limit: it waited for process ",
                                  peer, ". Make the group anew.")
                 : detail::concat("process ", peer, " is lost (", reason, "). Start it again."));
  // Without this Gloo would go on writing to the memory of messages, and wait for the rest of those that have
  // begun.
  try {
    context_->closeConnections();
  } catch (const std::exception&) {  // one that is closed already
  }
  {
    const std::lock_guard lock(mutex_);
    messages_.clear();
  }
  if (is_late)
    throw CollectiveTimeout(
        detail::concat(operation, " by the engine gloo: process ", peer,
                       " did not come within the time limit. See what it does, or allow for more time."),
        {.operation = std::string(operation)});
  cause_.raise(operation, "gloo");
}

void GlooChannel::exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                           std::span<const std::span<std::byte>> receives, backend::Deadline deadline) {
  std::vector<Message> messages;
  for_each_source([&](std::size_t p) { add_receive(messages, static_cast<int>(p), receives[p]); });
  for_each_destination([&](std::size_t p) { add_send(messages, static_cast<int>(p), sends[p]); });
  run(operation, num_calls_++, std::move(messages), deadline);
}

// A binomial tree: with `position` counted from the root, the process at p receives from p without its
// highest bit, and sends to p with each bit that is higher.
void GlooChannel::broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) {
  const auto size = static_cast<unsigned>(context_->size);
  const auto position = static_cast<unsigned>((context_->rank - root + context_->size) % context_->size);
  const auto process_at = [&](unsigned p) {
    return static_cast<int>((p + static_cast<unsigned>(root)) % size);
  };
  std::vector<Message> received, sent;
  if (position != 0) add_receive(received, process_at(position ^ std::bit_floor(position)), buffer);
  for (unsigned bit = std::bit_ceil(size) / 2; bit > 0 && bit >= std::bit_ceil(position + 1); bit /= 2) {
    if (position + bit < size) add_send(sent, process_at(position + bit), buffer);
  }
  const std::uint64_t call = num_calls_++;
  run("broadcast", call, std::move(received), deadline);
  run("broadcast", call, std::move(sent), deadline);
}

void GlooChannel::abort(std::string_view cause) noexcept {
  const std::lock_guard lock(mutex_);
  cause_.set(cause);
  for (Message& message : messages_) message.abort_wait();
}

}  // namespace lockstep::engines

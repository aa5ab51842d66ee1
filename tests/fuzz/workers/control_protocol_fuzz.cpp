#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/expect.hpp"
#include "workers/control/hub.hpp"
#include "workers/control/session.hpp"

namespace {

using namespace lockstep::detail::control;
using lockstep::test::expect;

constexpr int kNumWorkers = 3;

Hello hello_of(int worker) {
  return {.version = "1", .worker = worker, .num_workers = kNumWorkers, .pid = worker, .host = "h"};
}

/// A leader and its workers, without what carries their messages.
class Cluster {
 public:
  Cluster() {
    for (int worker = 0; worker < kNumWorkers; ++worker) begin(worker);
  }

  void join(const Hello& hello) {
    if (hub_.has_left(hello.worker) || hub_.has_lost()) return;
    if (!hub_.join(hello, "10.0.0.9")) begin(hello.worker);
    carry();
  }
  /// A message of a worker's. One that no worker sends costs it its place.
  void send(int worker, Message message) {
    if (!hub_.is_here(worker)) return;
    try {
      hub_.receive(worker, std::move(message), now_);
    } catch (const WireError&) {
      lose(worker);
    }
    carry();
  }
  void lose(int worker) {
    hub_.has_started() ? hub_.lose(worker, "its connection was closed") : hub_.forget(worker);
    carry();
  }
  void pass_time(int ms) {
    now_ += std::chrono::milliseconds(ms);
    hub_.expire(now_);
    expect(hub_.next_deadline() > now_, "what has waited for too long still waits");
    carry();
  }
  std::size_t num_kept() const noexcept { return hub_.num_kept(); }
  /// The leader leaves, which all hear.
  void end() {
    if (!hub_.is_here(0)) return;
    hub_.leave(0);
    carry();
    for (int worker = 1; worker < kNumWorkers; ++worker)
      expect(!hub_.is_here(worker) || sessions_[static_cast<std::size_t>(worker)]->is_over(),
             "a worker does not hear that the leader has left");
  }

 private:
  /// A process is this worker.
  void begin(int worker) {
    sessions_[static_cast<std::size_t>(worker)] =
        std::make_unique<Session>(worker, std::vector<std::string>(kNumWorkers));
  }
  /// What the leader sends is a frame that any worker can read, and what a leader sends.
  void carry() {
    for (Hub::Outgoing& outgoing : hub_.take_outgoing()) {
      bytes_.clear();
      encode(std::move(outgoing.message), bytes_);
      auto decoded = decode(bytes_);
      expect(decoded && decoded->num_bytes == bytes_.size(), "the leader sends half a frame");
      Session& session = *sessions_[static_cast<std::size_t>(outgoing.worker)];
      session.deliver(std::move(decoded->message));
      static_cast<void>(session.take_events());
    }
  }

  Hub::Time now_{};
  Hub hub_{hello_of(0), std::vector<std::string>(kNumWorkers, "10.0.0.1:2222"), std::chrono::seconds(9)};
  std::array<std::unique_ptr<Session>, kNumWorkers> sessions_;
  std::string bytes_;
};

}  // namespace

/// What the workers of a cluster send, one after the other: before each frame a byte says whose it is, and
/// what happens besides. Whatever they send, the leader answers with what a worker understands. With the
/// first byte odd, all have joined before.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  Cluster cluster;
  if ((data[0] & 1) != 0)
    for (int worker = 1; worker < kNumWorkers; ++worker) cluster.join(hello_of(worker));
  std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  std::size_t num_messages = 0;
  while (!rest.empty()) {
    const auto choice = static_cast<unsigned char>(rest[0]);
    const int worker = choice % kNumWorkers;
    rest.remove_prefix(1);
    if ((choice & 64) != 0) cluster.pass_time(choice & 15);
    if ((choice & 128) != 0) {
      cluster.lose(worker);
      continue;
    }
    std::optional<Decoded> decoded;
    try {
      decoded = decode(rest);
    } catch (const WireError&) {
      break;
    }
    if (!decoded) break;
    rest.remove_prefix(decoded->num_bytes);
    ++num_messages;
    if (const auto* const hello = std::get_if<Hello>(&decoded->message)) {
      cluster.join(*hello);
    } else {
      cluster.send(worker, std::move(decoded->message));
    }
    expect(cluster.num_kept() <= num_messages, "the leader keeps more than it was sent");
  }
  cluster.end();
  return 0;
}

#include "simulation/simulated_engine.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/file_descriptor.hpp"
#include "engines/first_cause.hpp"
#include "engines/pairwise_channel.hpp"
#include "workers/control/socket.hpp"

namespace lockstep::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kName = "simulated";
constexpr std::chrono::seconds kOpenLimit{60};
constexpr milliseconds kConnectLimit{5000};

/// What is left of a message between this process and another.
struct Transfer {
  int peer;
  bool is_send;
  std::byte* data;
  std::size_t size;
};

class SimulatedChannel final : public engines::PairwiseChannel {
 public:
  /// @param sockets  by process; none for this one.
  SimulatedChannel(int process, std::vector<detail::FileDescriptor> sockets)
      : process_(process), sockets_(std::move(sockets)), wake_up_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    set_place(process, static_cast<int>(sockets_.size()));
  }

  void broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) override {
    std::vector<Transfer> transfers;
    if (process_ != root) transfers.push_back({root, false, buffer.data(), buffer.size()});
    if (process_ == root)
      for_each_destination([&](std::size_t p) {
        transfers.push_back({static_cast<int>(p), true, buffer.data(), buffer.size()});
      });
    run("broadcast", std::move(transfers), deadline);
  }

  void abort(std::string_view cause) noexcept override {
    cause_.set(cause);
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_up_.get(), &one, sizeof one));
  }

 private:
  void exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                std::span<const std::span<std::byte>> receives, backend::Deadline deadline) override {
    std::vector<Transfer> transfers;
    for_each_source([&](std::size_t p) {
      transfers.push_back({static_cast<int>(p), false, receives[p].data(), receives[p].size()});
    });
    for_each_destination([&](std::size_t p) {
      transfers.push_back(
          {static_cast<int>(p), true, const_cast<std::byte*>(sends[p].data()), sends[p].size()});
    });
    run(operation, std::move(transfers), deadline);
  }

  void run(std::string_view operation, std::vector<Transfer> transfers, backend::Deadline deadline) {
    cause_.raise_if_set(operation, kName);
    for (;;) {
      for (Transfer& transfer : transfers) advance(operation, transfer);
      std::erase_if(transfers, [](const Transfer& transfer) { return transfer.size == 0; });
      if (transfers.empty()) return;
      std::vector<pollfd> watched{{wake_up_.get(), POLLIN, 0}};
      for (const Transfer& transfer : transfers)
        watched.push_back(
            {socket(transfer.peer), static_cast<short>(transfer.is_send ? POLLOUT : POLLIN), 0});
      int rest_ms = -1;
      if (deadline)
        rest_ms = static_cast<int>(std::clamp<std::int64_t>(
            std::chrono::ceil<milliseconds>(*deadline - steady_clock::now()).count(), 0, 1'000'000));
      ::poll(watched.data(), watched.size(), rest_ms);
      cause_.raise_if_set(operation, kName);
      if (deadline && steady_clock::now() >= *deadline) fail_late(operation, transfers.front().peer);
    }
  }

  void advance(std::string_view operation, Transfer& transfer) {
    while (transfer.size > 0) {
      const auto moved = transfer.is_send
                             ? ::send(socket(transfer.peer), transfer.data, transfer.size, MSG_NOSIGNAL)
                             : ::recv(socket(transfer.peer), transfer.data, transfer.size, 0);
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (moved <= 0)
        fail(operation, transfer.peer, moved == 0 ? "it has closed its connection" : std::strerror(errno));
      transfer.data += moved;
      transfer.size -= static_cast<std::size_t>(moved);
    }
  }

  [[noreturn]] void fail(std::string_view operation, int peer, std::string_view reason) {
    cause_.set(detail::concat("process ", peer, " is lost (", reason, "). Start it again."));
    close();
    cause_.raise(operation, kName);
  }

  [[noreturn]] void fail_late(std::string_view operation, int peer) {
    cause_.set(detail::concat("a call before did not end within its time limit: it waited for process ", peer,
                              ". Make the group anew."));
    throw CollectiveTimeout(
        detail::concat(operation, " by the engine ", kName, ": process ", peer,
                       " did not come within the time limit. See what it does, or allow for "
                       "more time."),
        {.operation = std::string(operation)});
  }

  /// The others hear that this process cannot go on.
  void close() {
    for (const detail::FileDescriptor& one : sockets_)
      if (one.is_open()) ::shutdown(one.get(), SHUT_RDWR);
  }

  int socket(int peer) const { return sockets_[static_cast<std::size_t>(peer)].get(); }

  const int process_;
  std::vector<detail::FileDescriptor> sockets_;
  detail::FileDescriptor wake_up_;
  engines::FirstCause cause_;
};

class SimulatedEngine final : public backend::Engine {
 public:
  explicit SimulatedEngine(const backend::EngineSetup& setup) : setup_(setup) {}

  /// Each process listens, and tells the others where; of each two the higher one connects.
  std::unique_ptr<backend::Channel> open_channel() override {
    const std::string channel = detail::concat("simulated/", num_channels_++, '/');
    const auto deadline = steady_clock::now() + (setup_.silence_limit.count() > 0 ? setup_.silence_limit
                                                                                  : milliseconds(kOpenLimit));
    const detail::control::ListeningSocket listening(setup_.host + ":0");
    setup_.store->set(channel + std::to_string(setup_.process),
                      detail::concat(setup_.host, ':', listening.port()));
    std::vector<detail::FileDescriptor> sockets(static_cast<std::size_t>(setup_.num_processes));
    for (int other = 0; other < setup_.process; ++other) {
      const std::string address = setup_.store->get(channel + std::to_string(other), deadline);
      std::string why;
      auto& socket = sockets[static_cast<std::size_t>(other)];
      socket = detail::control::try_connect(detail::control::parse_address(address), kConnectLimit, why);
      if (!socket.is_open()) fail(detail::concat("process ", other, " cannot be reached (", why, ')'));
      const auto own = static_cast<std::uint8_t>(setup_.process);
      if (::send(socket.get(), &own, 1, MSG_NOSIGNAL) != 1) fail("a new connection is broken");
    }
    for (int others = setup_.process + 1; others < setup_.num_processes; ++others)
      accept(listening, sockets, deadline);
    // As Gloo does: of each two processes the one that has accepted asks the other whether it is there.
    const int limit_ms = static_cast<int>(setup_.silence_limit.count());
    for (int other = setup_.process + 1; other < setup_.num_processes && limit_ms > 0; ++other)
      ::setsockopt(sockets[static_cast<std::size_t>(other)].get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms,
                   sizeof limit_ms);
    return std::make_unique<SimulatedChannel>(setup_.process, std::move(sockets));
  }

 private:
  [[noreturn]] static void fail(const std::string& why) {
    throw CollectiveAborted(detail::concat("opening a channel of the engine ", kName, ": ", why,
                                           ". See that all processes run, and reach each other."),
                            {.operation = "opening a channel"});
  }

  static void accept(const detail::control::ListeningSocket& listening,
                     std::vector<detail::FileDescriptor>& sockets, steady_clock::time_point deadline) {
    const auto wait_for = [&](int descriptor) {
      const auto rest = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
      pollfd watched{descriptor, POLLIN, 0};
      if (rest <= 0 || ::poll(&watched, 1, static_cast<int>(rest)) == 0)
        fail("a process has not come in time");
    };
    std::optional<detail::control::ListeningSocket::Accepted> accepted;
    while (!(accepted = listening.accept())) wait_for(listening.get());
    std::uint8_t from = 0;
    ssize_t size = 0;
    while ((size = ::recv(accepted->socket.get(), &from, 1, 0)) < 0 && errno == EAGAIN)
      wait_for(accepted->socket.get());
    if (size != 1 || from >= sockets.size()) fail("a new connection is broken");
    sockets[from] = std::move(accepted->socket);
  }

  const backend::EngineSetup setup_;
  int num_channels_ = 0;
};

std::unique_ptr<backend::Engine> start(const backend::EngineSetup& setup) {
  return std::make_unique<SimulatedEngine>(setup);
}

}  // namespace

void register_simulated_engine() { backend::register_engine({.name = kName, .start = &start}); }

}  // namespace lockstep::simulation

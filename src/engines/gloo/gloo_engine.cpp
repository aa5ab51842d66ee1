#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/names_in_folder.hpp"
#include "engines/gloo/full_mesh.hpp"
#include "engines/gloo/gloo_channel.hpp"
#include "engines/gloo/no_sigpipe.hpp"

namespace lockstep::engines {
namespace {

using std::chrono::milliseconds;

/// How long processes wait for each other when they open a channel, which they do at the same time.
constexpr milliseconds kOpenTimeout{60'000};
/// How long who cannot connect waits to hear that another process has failed.
constexpr milliseconds kReasonLimit{1'000};
/// A pair connects within so many of its context's time limits.
constexpr int kLimitsToConnect = 5;

/// One channel's part of the group's store: values by a name and a process.
class ChannelStore final {
 public:
  using Value = FullMesh::Addresses;

  ChannelStore(backend::KeyValueStore& store, int channel) noexcept : store_(store), channel_(channel) {}

  void set(const char* name, int process, const Value& value = {}) {
    store_.set(key(name, process), std::string(value.begin(), value.end()));
  }
  /// Waits until that process has set it.
  Value get(const char* name, int process) {
    const std::string value = store_.get(key(name, process), std::chrono::steady_clock::now() + kOpenTimeout);
    return {value.begin(), value.end()};
  }
  void erase_all() { store_.erase(prefix()); }

 private:
  std::string prefix() const { return detail::concat("gloo/", channel_, '/'); }
  std::string key(const char* name, int process) const {
    return detail::concat(prefix(), name, '/', process);
  }

  backend::KeyValueStore& store_;
  const int channel_;
};

[[noreturn]] void raise_no_thread(const char* operation, const std::system_error& error) {
  throw Error(detail::concat(operation, ": its thread cannot be started: ", error.code().message(),
                             ". Allow the process more threads or memory."));
}

std::string own_host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Gloo cannot tell that a name is unknown: it takes an address alone.
Addresses addresses_of(const std::string& host, std::string& reason) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) reason = gai_strerror(error);
  return {error == 0 ? found : nullptr, &freeaddrinfo};
}

std::shared_ptr<gloo::transport::Device> listen_on(const std::string& host) {
  std::string reason;
  const Addresses addresses = addresses_of(host, reason);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    char number[256] = {};
    const int failed =
        getnameinfo(address->ai_addr, address->ai_addrlen, number, sizeof number, nullptr, 0, NI_NUMERICHOST);
    if (failed != 0) {
      reason = gai_strerror(failed);
      continue;
    }
    try {
      return gloo::transport::tcp::CreateDevice(number);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::system_error& error) {
      raise_no_thread("starting the engine gloo", error);
    } catch (const std::exception& error) {  // not one of this machine's
      reason = error.what();
    }
  }
  throw ContextError(
      detail::concat("starting the engine gloo: \"", host, "\" is not a name or address of this host (",
                     reason, "). Give each process a name or address of its own host."),
      {.operation = "starting the engine gloo"});
}

/// The connections of the context that this process has accepted fail when the other one's host answers
/// nothing for so long: of each two processes one asks the other. Else the system tries for a quarter of an
/// hour to reach a host to which there is no way any more, and waits for ever for its messages.
void limit_silence(gloo::Context& context, milliseconds limit) {
  const auto is_accepted = [&](const sockaddr_storage& address, socklen_t size) {
    for (int other = 0; other < context.size; ++other) {
      if (other == context.rank) continue;
      const auto& own = dynamic_cast<const gloo::transport::tcp::Address&>(context.getPair(other)->address());
      if (std::memcmp(&own.getSockaddr(), &address, size) == 0) return true;
    }
    return false;
  };
  using Seconds = std::chrono::duration<int>;
  const int period_s = std::max(1, std::chrono::floor<Seconds>(limit / 4).count());
  const int limit_ms = static_cast<int>(limit.count());
  std::error_code no_list;  // then the system's limits stay
  // Gloo does not tell its sockets.
  for (const std::string& name : detail::names_in_folder("/proc/self/fd", no_list)) {
    const int socket = std::stoi(name);
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 || !is_accepted(address, size))
      continue;
    const auto set = [&](int level, int option, int value) {
      static_cast<void>(setsockopt(socket, level, option, &value, sizeof value));
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, period_s);
    set(IPPROTO_TCP, TCP_KEEPINTVL, period_s);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, limit_ms);
  }
}

/// What a process says of a channel that all open, and hears of the others. One that fails says all at its
/// end, so that no other one waits for it, in the store or in Gloo.
class Opening {
 public:
  Opening(ChannelStore& store, const backend::EngineSetup& setup) : store_(store), setup_(setup) {}
  ~Opening() {
    try {
      while (num_said_ < kNames.size())
        say(num_said_ == 2 ? ChannelStore::Value(reason_.begin(), reason_.end()) : ChannelStore::Value());
    } catch (const std::exception&) {  // a process is lost, and the store with it; or there is no memory
    }
    if (hearing_.joinable()) hearing_.join();
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  /// Returns when all are here.
  void meet() {
    say({});
    for_each_process([&](int process) { store_.get(kNames[0], process); });
  }
  /// Connects the mesh, and returns when all processes have: a connection closed by who is done already would
  /// seem to have failed. @throws as the store; CollectiveAborted  another process has failed. @throws Gloo's
  void connect(const std::shared_ptr<FullMesh>& mesh) {
    try {
      hearing_ = std::thread([this, mesh] { hear(*mesh); });
    } catch (const std::system_error& error) {
      raise_no_thread("opening a channel of the engine gloo", error);
    }
    say(mesh->own_addresses());
    try {
      const bool is_connected = mesh->connect([&](int other) {
        ChannelStore::Value addresses = store_.get(kNames[1], other);
        if (addresses.empty()) raise_failure_of(other);
        return addresses;
      });
      if (is_connected) say(kDone);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {  // Gloo's: another process may have failed, and says why
      if (!hears_within(kReasonLimit)) throw;
    }
    hearing_.join();
    if (error_) std::rethrow_exception(error_);
    if (failed_ >= 0) raise_failure_of(failed_);
  }
  /// What the others are told of this process's failure.
  void fail(std::string_view reason) { reason_ = reason; }
  /// Leaves nothing in the store, once nobody reads it any more.
  void clear() {
    say({});
    if (setup_.process != 0) return;
    for_each_process([&](int process) { store_.get(kNames[3], process); });
    store_.erase_all();
  }

 private:
  static constexpr std::array<const char*, 4> kNames = {"here", "addresses", "connected", "cleared"};
  inline static const ChannelStore::Value kDone{'1'};  // else the reason of a failure

  void say(const ChannelStore::Value& value) {
    store_.set(kNames[num_said_], setup_.process, value);
    ++num_said_;
  }
  [[noreturn]] void raise_failure_of(int process) const {
    const ChannelStore::Value reason = store_.get(kNames[2], process);
    throw CollectiveAborted(detail::concat("opening a channel of the engine gloo: process ", process,
                                           " has failed: ", std::string(reason.begin(), reason.end())),
                            {.operation = "opening a channel"});
  }
  template <class F>
  void for_each_process(F f) const {
    for (int process = 0; process < setup_.num_processes; ++process) f(process);
  }
  void hear(FullMesh& mesh) noexcept {
    try {
      for (int process = 0; process < setup_.num_processes && failed_ < 0; ++process)
        if (process != setup_.process && store_.get(kNames[2], process) != kDone) failed_ = process;
    } catch (...) {  // a process is lost
      error_ = std::current_exception();
    }
    if (!error_ && failed_ < 0) return;
    has_failed_ = true;
    mesh.abandon();
  }
  /// Whether another process is known to have failed so soon.
  bool hears_within(milliseconds limit) const {
    constexpr milliseconds kPause{10};
    for (milliseconds waited{0}; !has_failed_ && waited < limit; waited += kPause)
      std::this_thread::sleep_for(kPause);
    return has_failed_;
  }

  ChannelStore& store_;
  const backend::EngineSetup& setup_;
  std::size_t num_said_ = 0;  // of kNames
  std::string reason_;
  std::thread hearing_;  // sets what follows
  std::exception_ptr error_;
  int failed_ = -1;
  std::atomic<bool> has_failed_{false};  // behind the two
};

class GlooEngine final : public backend::Engine {
 public:
  explicit GlooEngine(const backend::EngineSetup& setup)
      : setup_(setup), device_(listen_on(setup.host.empty() ? own_host_name() : setup.host)) {}

  std::unique_ptr<backend::Channel> open_channel() override {
    const NoSigpipe no_sigpipe;
    ChannelStore store(*setup_.store, num_channels_++);
    const bool is_limited = setup_.silence_limit.count() > 0;
    Opening opening(store, setup_);
    try {
      auto mesh =
          std::make_shared<FullMesh>(setup_.process, setup_.num_processes, device_,
                                     is_limited ? setup_.silence_limit : kOpenTimeout / kLimitsToConnect);
      opening.meet();
      opening.connect(mesh);
      if (is_limited) limit_silence(*mesh, setup_.silence_limit);
      auto channel = std::make_unique<GlooChannel>(std::move(mesh));
      opening.clear();
      return channel;
    } catch (const Error& error) {  // the store's, or another process's
      opening.fail(error.what());
      throw;
    } catch (const std::bad_alloc& error) {
      opening.fail(error.what());
      throw;
    } catch (const std::exception& error) {
      const std::string text = detail::concat("opening a channel of the engine gloo: process ",
                                              setup_.process, " cannot reach another (", error.what(),
                                              "). See that each one's host is reached from all others.");
      opening.fail(text);
      throw CollectiveAborted(text, {.operation = "opening a channel"});
    }
  }

 private:
  const backend::EngineSetup setup_;
  std::shared_ptr<gloo::transport::Device> device_;
  int num_channels_ = 0;
};

std::unique_ptr<backend::Engine> start(const backend::EngineSetup& setup) {
  if (setup.store == nullptr)
    throw ContextError(
        "starting the engine gloo: there is no store for the processes to find each other. Give it one.",
        {.operation = "starting the engine gloo"});
  const NoSigpipe no_sigpipe;  // the device starts a thread
  return std::make_unique<GlooEngine>(setup);
}

bool make_known() {
  backend::register_engine({.name = "gloo", .start = &start});
  return true;
}

}  // namespace
}  // namespace lockstep::engines

// A program that links the static library asks for this name, and so for this file.
extern "C" const bool lockstep_gloo_engine;
const bool lockstep_gloo_engine = lockstep::engines::make_known();

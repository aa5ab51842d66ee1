#include "workers/control/start.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <lockstep/error.hpp>
#include <lockstep/version.hpp>

#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "detail/warn.hpp"
#include "workers/control/control_connection.hpp"
#include "workers/control/endpoint.hpp"
#include "workers/control/errors.hpp"
#include "workers/control/host_identity.hpp"
#include "workers/control/hub.hpp"
#include "workers/control/proof.hpp"
#include "workers/control/socket.hpp"

namespace lockstep::detail::control {
namespace {

using Clock = std::chrono::steady_clock;
using Duration = StartPatience::Duration;

constexpr std::chrono::milliseconds kLeastSilenceLimit{200};
constexpr std::chrono::hours kLongestLimit{24 * 365};  // what is longer has no end in nanoseconds
constexpr Duration kConnectLimit{5000};                // of one try: a packet may be lost
constexpr Duration kOutdatedPause{250};                // between looks; a connection may take so long
constexpr Duration kFirstPause{1}, kLongestPause{1000};
constexpr double kPauseFactor = 1.3;

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

/// Nothing: the connection has ended. @param look  called every now and then; may throw.
template <class Look>
std::optional<Message> first_answer(Link& link, const StartPatience& patience, const Look& look) {
  for (bool has_waited = false;; has_waited = true) {
    if (auto message = link.next()) return message;
    if (link.is_closed()) return std::nullopt;
    if (has_waited) look();
    pollfd watched{link.get(), static_cast<short>(link.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0};
    ::poll(&watched, 1, static_cast<int>(patience.rest().count()));
    link.flush();
    link.receive();
  }
}

constexpr FrameLimits kOfStranger{kMaxHelloBytes, kind_of<Challenge>()};

/// Sends the hello, and returns the leader's answer to it. Nothing: the connection has ended. @param look  as
/// for first_answer. @throws WireError  whoever listens is not the leader.
template <class Look>
std::optional<Message> join(Link& link, const Hello& hello, std::string_view token,
                            const StartPatience& patience, const Look& look) {
  const auto challenge = first_answer(link, patience, look);
  if (!challenge) return std::nullopt;
  const std::string& nonce = std::get<Challenge>(*challenge).nonce;
  if (nonce.size() != kNonceBytes) throw WireError("a nonce has another size");
  Join own{.nonce = random_nonce()};
  encode(hello, own.hello);
  own.proof = prove(token, Prover::worker, nonce, own.nonce, own.hello);
  const std::string due = prove(token, Prover::leader, nonce, own.nonce, {});
  link.set_limits({.max_bytes = kMaxHelloBytes});
  look();  // whoever was stopped on its way may not be invited any more, and would take another's place
  link.send(std::move(own));
  auto answer = first_answer(link, patience, look);
  if (!answer || std::holds_alternative<Refused>(*answer)) return answer;
  const Welcome* const welcome = std::get_if<Welcome>(&*answer);
  if (welcome == nullptr || !is_same_proof(welcome->proof, due))
    throw WireError("it does not have the token");
  link.set_limits({});
  return first_answer(link, patience, look);
}

}  // namespace

void check(const ControlOptions& options) {
  const int num_workers = static_cast<int>(options.addresses.size());
  LOCKSTEP_EXPECTS(0 <= options.worker && options.worker < num_workers, InvalidArgument,
                   "The start of the workers: this process is worker ", options.worker, " of ", num_workers,
                   ". Give it an index below the number of workers.");
  LOCKSTEP_EXPECTS(num_workers == 1 || !options.addresses[0].empty(), InvalidArgument,
                   "The start of the workers: nobody knows the address of worker 0, which the others connect "
                   "to. Set MASTER_ADDR and MASTER_PORT, or give the cluster its address.");
  if (num_workers > 1) static_cast<void>(parse_peer_address(options.addresses[0]));
  LOCKSTEP_EXPECTS(options.silence_limit >= kLeastSilenceLimit, InvalidArgument,
                   "The start of the workers: a worker would be lost after ", options.silence_limit.count(),
                   " ms of silence. Give it at least ", kLeastSilenceLimit.count(), " ms.");
  LOCKSTEP_EXPECTS(options.start_limit.count() >= 0, InvalidArgument, "The start of the workers: a limit of ",
                   options.start_limit.count(), " ms is negative. Give one from 1 ms on, or 0 for none.");
}

Hello hello_of(const ControlOptions& options) {
  std::random_device random;
  Hello hello{.version = LOCKSTEP_VERSION_STRING,
              .worker = options.worker,
              .num_workers = static_cast<std::int32_t>(options.addresses.size()),
              .incarnation = std::uint64_t{random()} << 32 | random(),
              .pid = ::getpid(),
              .address = options.addresses[static_cast<std::size_t>(options.worker)],
              .host = options.host.empty() ? host_identity() : options.host};
  const std::size_t size = hello.address.size() + hello.host.size();
  LOCKSTEP_EXPECTS(size <= kMaxHelloBytes / 2, InvalidArgument,
                   "The start of the workers: this worker's address and the name of its host have ", size,
                   " bytes, and may have ", kMaxHelloBytes / 2, ". Set LOCKSTEP_HOST_ID to a shorter one.");
  return hello;
}

FileDescriptor open_wake_up() {
  FileDescriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const int error = errno;
  if (!made.is_open())
    raise<Error>({__FILE__, __LINE__, __func__},
                 concat("The start of the workers: an eventfd cannot be made: ",
                        std::generic_category().message(error), ". Allow the process more file descriptors."),
                 {.code = error});
  return made;
}

std::string listening_address(const ControlOptions& options) {
  const std::string& own = options.addresses[0];
  if (options.listen_host.empty() || own.empty()) return own;
  const bool is_bare_ipv6 =
      options.listen_host.find(':') != std::string::npos && options.listen_host[0] != '[';
  return concat(is_bare_ipv6 ? concat('[', options.listen_host, ']') : options.listen_host,
                own.substr(std::min(own.rfind(':'), own.size())));
}

std::vector<std::string> labels_of(const std::vector<std::string>& addresses) {
  std::vector<std::string> labels;
  for (const std::string& address : addresses)
    labels.push_back(make_label(static_cast<int>(labels.size()), address));
  return labels;
}

StartPatience::StartPatience(Duration limit, Duration log_interval, std::function<bool()> is_outdated,
                             std::string_view what, std::string_view advice)
    : limit_(std::min<Duration>(limit, kLongestLimit)),
      log_interval_(log_interval),
      is_outdated_(std::move(is_outdated)),
      what_(what),
      advice_(advice),
      begin_(Clock::now()),
      next_log_(begin_ + log_interval) {}

Duration StartPatience::rest() const {
  const Time now = Clock::now();
  Time until = next_log_;
  if (limit_.count() > 0) until = std::min(until, begin_ + limit_);
  if (is_outdated_) until = std::min(until, now + kOutdatedPause);
  return std::max(Duration(1), std::chrono::ceil<Duration>(until - now));
}

bool StartPatience::look(const std::string& who) {
  const Time now = Clock::now();
  if (limit_.count() > 0 && now - begin_ >= limit_) return false;
  if (is_outdated_ && is_outdated_())
    raise_refused({ErrorKind::lost, concat(what_, ": another worker is lost; ", who, '.')});
  if (now >= next_log_) {
    const auto waited = std::chrono::floor<std::chrono::seconds>(now - begin_);
    warn(concat(what_, " has waited for ", waited.count(), " s: ", who, " so far."));
    next_log_ = now + log_interval_;
  }
  return true;
}

Refused StartPatience::timeout(const std::string& who) const {
  return {ErrorKind::timeout, concat(what_, ": within ", limit_text(), ' ', who, ". ", advice_)};
}

std::string StartPatience::limit_text() const { return concat(seconds(limit_), " s"); }

Link reach_leader(const std::string& address, const Hello& hello, std::string_view token,
                  StartPatience& patience, FunctionRef<void(Message answer)> take) {
  const SocketAddress parsed = parse_peer_address(address);
  const std::string leader = make_label(0, address);
  auto pause = std::chrono::duration<double, std::milli>(kFirstPause);
  std::string who, before;
  const auto look = [&] {
    if (!patience.look(who)) raise_refused(patience.timeout(who));
  };
  for (;;) {
    std::string why;
    FileDescriptor socket = try_connect(parsed, std::min(kConnectLimit, patience.rest()), why);
    if (socket.is_open()) {
      Link link(std::move(socket), kOfStranger);
      who = concat(leader, " did not answer");
      if (!before.empty()) who += concat("; before that it ", before);
      try {
        if (auto answer = join(link, hello, token, patience, look)) {
          take(std::move(*answer));
          return link;
        }
        why = link.error() == 0 ? "it closed the connection" : why_closed(link);
      } catch (const WireError&) {
        why = "what listens there does not speak lockstep's protocol, or has another token";
      }
    }
    before = concat("could not be reached (", why, ")");
    who = concat(leader, ' ', before);
    look();
    std::this_thread::sleep_for(
        std::min(std::chrono::ceil<Duration>(pause), std::min(kLongestPause, patience.rest())));
    pause = std::min<decltype(pause)>(pause * kPauseFactor, kLongestPause);
  }
}

Link join_leader(const std::string& address, const Hello& hello, std::string_view token, Session& session,
                 StartPatience& patience) {
  return reach_leader(address, hello, token, patience,
                      [&](Message answer) { session.deliver(std::move(answer)); });
}

}  // namespace lockstep::detail::control

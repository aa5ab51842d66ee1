#include "workers/control/joining/waiting_list.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/in_quotes.hpp"
#include "workers/control/endpoint.hpp"

namespace lockstep::detail::control {
namespace {

constexpr std::size_t kMaxJoiners = 64;  // at a time
constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{60};

bool is_address(const std::string& text) try {
  static_cast<void>(parse_address(text));
  return true;
} catch (const InvalidArgument&) {
  return false;
}

}  // namespace

WaitingList::WaitingList(std::string leader, std::string version, std::vector<std::string> addresses,
                         Duration silence_limit)
    : leader_(std::move(leader)),
      version_(std::move(version)),
      addresses_(std::move(addresses)),
      silence_limit_(silence_limit) {}

Refused WaitingList::refused(ErrorKind kind, const std::string& why) const {
  return {kind, concat("Joining the workers of ", leader_, ": ", why)};
}

std::optional<Refused> WaitingList::refusal(const Hello& hello) const {
  const auto wrong = [&](const auto&... parts) {
    return refused(ErrorKind::invalid_argument, concat(parts...));
  };
  if (hello.version != version_)
    return wrong("this process has lockstep ", in_quotes(hello.version), ", they have ", in_quotes(version_),
                 ". Install one version on all workers.");
  if (joiners_.size() == kMaxJoiners)
    return refused(ErrorKind::context,
                   concat(kMaxJoiners, " processes wait already. Start this one again later."));
  if (hello.address.empty()) return std::nullopt;
  if (!is_address(hello.address))
    return wrong("its own address ", in_quotes(hello.address),
                 " is no host and port. Write it as 'host:2222', or leave it out.");
  return std::nullopt;
}

void WaitingList::admit(Link link, const Hello& hello) {
  // Closed without an answer, it connects again: to the leader that keeps the socket in the end.
  if (has_moved_ || socket_.use_count() > 1) return;
  if (const auto refused = refusal(hello)) {
    link.send(*refused);
    link.end();
    return;
  }
  std::erase_if(joiners_, [&](Joiner& joiner) {
    if (hello.address.empty() || joiner.address.empty() ||
        normalized_address(joiner.address) != normalized_address(hello.address))
      return false;
    joiner.link.send(refused(ErrorKind::invalid_argument,
                             concat("another process has come with its own address ", hello.address,
                                    ", and takes its place. Give each one of its own.")));
    joiner.link.end();
    return true;
  });
  link.set_limits({kMaxHelloBytes, kind_of<Heartbeat>()});
  link.send(Waiting{silence_limit_.count(), {}, addresses_});
  joiners_.push_back({std::move(link), hello.address});
}

bool WaitingList::has_gone(Joiner& joiner, Time now) const {
  if (joiner.is_sent_away) return true;
  try {
    while (joiner.link.next()) continue;
  } catch (const WireError&) {
    return true;
  }
  if (joiner.link.is_closed()) return true;
  // Who is invited makes its strategy, within a time limit, and sends no heartbeats meanwhile.
  if (joiner.is_invited || now - joiner.link.last_heard() < silence_limit_) return false;
  joiner.link.receive();  // this process may have been stopped since poll looked
  return now - joiner.link.last_heard() >= silence_limit_;
}

void WaitingList::serve(Time now) {
  if (has_moved_) return close();
  std::erase_if(joiners_, [&](Joiner& joiner) {
    if (!has_gone(joiner, now)) return false;
    has_lost_invited_ = has_lost_invited_ || (joiner.is_invited && !joiner.is_sent_away);
    return true;
  });
}

void WaitingList::serve_leaving() {
  socket_.reset();
  std::erase_if(joiners_, [](const Joiner& joiner) { return joiner.link.is_closed(); });
}

void WaitingList::send_heartbeats() {
  for (Joiner& joiner : joiners_) joiner.link.send(Heartbeat{});
}

WaitingList::Time WaitingList::next_deadline() const {
  Time next = Time::max();
  for (const Joiner& joiner : joiners_)
    if (!joiner.is_invited) next = std::min(next, joiner.link.last_heard() + silence_limit_);
  return next;
}

int WaitingList::num_waiting(Time now) const noexcept {
  if (now < counts_again_) return 0;
  return static_cast<int>(std::ranges::count(joiners_, false, &Joiner::is_invited));
}

std::vector<std::string> WaitingList::invite(Time now) {
  std::vector<std::string> invited;
  if (num_waiting(now) == 0) return invited;
  for (const Joiner& joiner : joiners_)
    if (!joiner.is_invited) invited.push_back(joiner.address);
  std::vector<std::string> all = addresses_;
  all.insert(all.end(), invited.begin(), invited.end());
  auto worker = static_cast<std::int32_t>(addresses_.size());
  is_inviting_ = has_invited_ = true;
  has_lost_invited_ = false;
  try {
    for (Joiner& joiner : joiners_) {
      if (joiner.is_invited) continue;  // it was sent away
      joiner.is_invited = true;
      joiner.link.send(Invited{worker++, all});
    }
  } catch (...) {
    end_invitation(false, now);
    throw;
  }
  return invited;
}

void WaitingList::end_invitation(bool has_grown, Time now) {
  if (is_inviting_ && !has_grown) {
    pause_ = std::clamp<Duration>(2 * pause_, kFirstPause, kLongestPause);
    counts_again_ = now + pause_;
  }
  for (Joiner& joiner : joiners_) joiner.is_sent_away = joiner.is_sent_away || joiner.is_invited;
  has_moved_ = has_moved_ || (is_inviting_ && has_grown);
  is_inviting_ = has_lost_invited_ = false;
}

void WaitingList::refuse_all() {
  const bool is_vain = !has_moved_ && socket_.use_count() == 1;
  for (Joiner& joiner : joiners_) {
    if (is_vain)
      joiner.link.send(refused(ErrorKind::context,
                               "they have ended. Start this process again with those that come next."));
    joiner.link.end();
  }
}

void WaitingList::close() {
  has_lost_invited_ = has_lost_invited_ || is_inviting_;
  is_inviting_ = false;
  socket_.reset();
  joiners_.clear();
}

}  // namespace lockstep::detail::control

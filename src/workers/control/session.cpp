#include "workers/control/session.hpp"

#include <utility>

#include "detail/concat.hpp"

namespace lockstep::detail::control {

void Session::deliver(Message message) {
  if (has_left_ || is_over_) return;
  const auto check = [this](std::int32_t worker) {
    if (!has_started() || worker < 0 || worker >= static_cast<std::int32_t>(labels_.size()))
      throw WireError(concat("the leader speaks of worker ", worker));
  };
  std::visit(
      Overloaded{
          [](Heartbeat&) {},
          [&](Waiting& waiting) {
            missing_ = std::move(waiting.missing);
            silence_ms_ = waiting.silence_ms;
          },
          [&](Refused& refused) {
            if (has_started()) throw WireError("the leader refuses after the start");
            settle(std::move(refused));
          },
          [&](Started& started) {
            if (started.labels.size() != labels_.size() || started.hosts.size() != labels_.size())
              throw WireError("the leader has another number of workers");
            labels_ = std::move(started.labels);
            hosts_ = std::move(started.hosts);
            settle(std::nullopt);
          },
          [&](Value& value) { answer(std::move(value)); },
          [&](Gathered& gathered) { answer(std::move(gathered)); },
          [&](Failed& failed) { answer(std::move(failed)); },
          [&](Failure& failure) {
            check(failure.worker);
            events_.push_back({Event::Kind::failure, failure.worker, failure.epoch, std::move(failure.text)});
          },
          [&](Lost& lost) {
            check(lost.worker);
            end_calls(ErrorKind::lost, lost.cause);
            events_.push_back({Event::Kind::lost, lost.worker, 0, std::move(lost.cause)});
            is_over_ = lost.worker == 0 || lost.worker == worker_;
          },
          [&](Left& left) {
            if (!has_started()) return lose_leader("it ended the start");
            check(left.worker);
            events_.push_back({Event::Kind::left, left.worker, 0, {}});
            if (left.worker != 0) return;
            end_calls(ErrorKind::lost, concat(labels_[0], " has left"));
            is_over_ = true;
          },
          [](auto&) { throw WireError("the leader sends what only workers send"); },
      },
      message);
}

void Session::lose_leader(std::string_view how) {
  if (has_left_ || is_over_) return;
  std::string cause = concat(labels_[0], " was lost: ", how);
  if (has_started()) return deliver(Lost{0, std::move(cause)});
  if (!has_settled()) settle(Refused{ErrorKind::lost, concat("The start of the workers: ", cause)});
  is_over_ = true;
}

void Session::leave() {
  has_left_ = true;
  events_.clear();
  end_calls(ErrorKind::context, "this worker has left");
  if (!has_settled()) settle(Refused{ErrorKind::context, "The start of the workers: this worker has left."});
}

void Session::settle(std::optional<Refused> refused) {
  if (has_settled()) return;
  refused_ = std::move(refused);
  has_settled_.store(true);
}

std::uint64_t Session::add(PendingCall& call) {
  if (ended_) {
    call.answer = *ended_;
    call.is_answered.store(true);
    return ++last_call_;
  }
  calls_.emplace(last_call_ + 1, &call);
  return ++last_call_;
}

void Session::answer(std::uint64_t number, Message message) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;  // it has failed before
  PendingCall& call = *found->second;
  calls_.erase(found);
  call.answer = std::move(message);
  call.is_answered.store(true);
}

void Session::end_calls(ErrorKind kind, const std::string& text) {
  if (!ended_) ended_ = Failed{0, kind, text};
  while (!calls_.empty()) answer(calls_.begin()->first, *ended_);
}

std::vector<Event> Session::take_events() { return std::exchange(events_, {}); }

}  // namespace lockstep::detail::control

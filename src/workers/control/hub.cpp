#include "workers/control/hub.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "detail/concat.hpp"
#include "detail/in_quotes.hpp"

namespace lockstep::detail::control {
namespace {

constexpr std::size_t kMaxNames = 8;  // in a message

Hub::Time after(Hub::Time now, std::uint64_t limit_ms) {
  constexpr std::uint64_t kForEver =
      std::uint64_t{1000} * 60 * 60 * 24 * 365;  // a clock can count much further
  if (limit_ms > kForEver) return Hub::Time::max();
  return now + Hub::Duration(static_cast<Hub::Duration::rep>(limit_ms));
}

/// "a, b and c"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  const std::size_t num_named = names.size() > kMaxNames + 1 ? kMaxNames : names.size();
  const std::size_t num_parts = num_named + (num_named < names.size() ? 1 : 0);
  for (std::size_t i = 0; i < num_parts; ++i) {
    if (i > 0) text += i + 1 < num_parts ? ", " : " and ";
    text += i < num_named ? names[i] : concat(names.size() - num_named, " others");
  }
  return text;
}

}  // namespace

std::string make_label(int worker, std::string_view address) {
  return address.empty() ? concat("worker ", worker) : concat("worker ", worker, " (", address, ")");
}

Hub::Hub(const Hello& own, std::vector<std::string> addresses, Duration silence_limit)
    : workers_(addresses.size()), version_(own.version), silence_limit_(silence_limit) {
  for (int worker = 0; worker < num_workers(); ++worker) {
    Worker& it = worker_at(worker);
    it.address = std::move(addresses[static_cast<std::size_t>(worker)]);
    it.label = make_label(worker, it.address);
  }
  add(0, own, own.address);
  start_if_complete();
}

std::optional<Refused> Hub::join(const Hello& hello, const std::string& peer_host) {
  const bool is_known = 0 < hello.worker && hello.worker < num_workers();
  std::string address = is_known ? worker_at(hello.worker).address : std::string();
  if (address.empty()) address = hello.address.empty() ? peer_host : hello.address;
  const std::string comer =
      hello.worker < 0 ? concat("a process (", address, ")") : make_label(hello.worker, address);
  if (auto refused = refusal(hello, comer)) {
    if (!has_started_) refuse(*refused);
    return refused;
  }
  add(hello.worker, hello, address);
  outgoing_.push_back({hello.worker, heartbeat()});
  start_if_complete();
  return std::nullopt;
}

std::optional<Refused> Hub::refusal(const Hello& hello, const std::string& comer) const {
  const auto refused = [&](ErrorKind kind, const auto&... parts) {
    return Refused{kind, concat("The start of the workers: ", parts...)};
  };
  const std::string& own = label(0);
  if (hello.version != version_)
    return refused(ErrorKind::invalid_argument, comer, " has lockstep ", in_quotes(hello.version), ", but ",
                   own, " has ", in_quotes(version_), ". Install one version on all workers.");
  if (has_started_)
    return refused(ErrorKind::context, comer,
                   " comes after the workers have started. Let it join instead, by "
                   "MultiWorkerMirroredStrategy::join where they grow; or start all workers anew.");
  if (hello.num_workers != num_workers())
    return refused(ErrorKind::invalid_argument, comer, " counts ", hello.num_workers, " workers, but ", own,
                   " counts ", num_workers(), ". Give all workers the same cluster.");
  if (hello.worker < 0 || hello.worker >= num_workers())
    return refused(ErrorKind::invalid_argument, comer, " is none of the ", num_workers(),
                   " workers. Give each process an index below their number.");
  const Worker& there = worker_at(hello.worker);
  if (there.is_here && there.incarnation != hello.incarnation)
    return refused(ErrorKind::invalid_argument, "two processes are worker ", hello.worker, ": process ",
                   there.pid, " of ", in_quotes(there.host), " and process ", hello.pid, " of ",
                   in_quotes(hello.host), ". Give each process an index of its own.");
  return std::nullopt;
}

void Hub::refuse(const Refused& refused) {
  is_refused_ = true;
  send_to_all(refused);
}

void Hub::add(int worker, const Hello& hello, const std::string& address) {
  Worker& it = worker_at(worker);
  it.is_here = true;
  if (it.address.empty()) it.label = make_label(worker, address);
  it.host = hello.host;
  it.pid = hello.pid;
  it.incarnation = hello.incarnation;
}

void Hub::forget(int worker) { worker_at(worker).is_here = false; }

bool Hub::has_left(int worker) const {
  return 0 <= worker && worker < num_workers() && worker_at(worker).has_left;
}

void Hub::start_if_complete() {
  if (!is_refused_ && std::ranges::all_of(workers_, &Worker::is_here)) start();
}

void Hub::start_without_missing(std::string_view how) {
  start();
  for (int worker = 0; worker < num_workers(); ++worker) {
    if (is_here(worker)) continue;
    send_to_all(Lost{worker, concat(label(worker), " was lost: ", how)});
    has_lost_ = true;
  }
}

void Hub::start() {
  has_started_ = true;
  Started started;
  for (const Worker& worker : workers_) {
    started.labels.push_back(worker.label);
    started.hosts.push_back(worker.host);
  }
  send_to_all(started);
}

std::string Hub::missing() const {
  std::vector<std::string> names;
  for (const Worker& worker : workers_)
    if (!worker.is_here) names.push_back(worker.label);
  return listed(names);
}

std::string Hub::missing(Place place, const PendingGather& pending) const {
  std::vector<std::string> names;
  for (int worker = 0; worker < num_workers(); ++worker)
    if (find_text(place, pending, worker) == nullptr) names.push_back(label(worker));
  return listed(names);
}

Message Hub::heartbeat() const {
  if (has_started_) return Heartbeat{};
  return Waiting{silence_limit_.count(), missing()};
}

template <class M>
void Hub::send_to_all(const M& message, int except) {
  for (int worker = 0; worker < num_workers(); ++worker)
    if (worker != except && is_here(worker)) outgoing_.push_back({worker, message});
}

void Hub::receive(int worker, Message message, Time now) {
  if (!has_started_) {
    if (std::holds_alternative<Left>(message)) return forget(worker);
    if (std::holds_alternative<Heartbeat>(message)) return;
    throw WireError("a worker uses the connection before the start");
  }
  std::visit(Overloaded{
                 [](const Heartbeat&) {},
                 [&](const Set& set) { receive_in_order(worker, set); },
                 [&](const Get& get) { receive_in_order(worker, get, now); },
                 [&](const Gather& gather) { receive_in_order(worker, gather, now); },
                 [&](const StreamEnd& end) { receive_in_order(worker, end); },
                 [&](const Erase& erase) {
                   std::erase_if(values_,
                                 [&](const auto& value) { return value.first.starts_with(erase.prefix); });
                 },
                 [&](Failure& failure) {
                   const int except = failure.worker == kForAll ? -1 : worker;
                   failure.worker = worker;
                   send_to_all(failure, except);
                 },
                 // A worker has heard nothing from the leader, and has gone; or its process ends in a call.
                 [&](Lost& lost) {
                   if (lost.worker != 0 && lost.worker != worker)
                     throw WireError("a worker speaks of another's end");
                   lose_because(lost.worker, std::move(lost.cause));
                 },
                 [&](const Left&) { leave(worker); },
                 [](const auto&) { throw WireError("a worker sends what only the leader sends"); },
             },
             message);
}

void Hub::receive_in_order(int, const Set& set) {
  values_[set.key] = set.value;
  std::erase_if(gets_, [&](const PendingGet& pending) {
    if (pending.get.key != set.key) return false;
    outgoing_.push_back({pending.worker, Value{pending.get.call, set.value}});
    return true;
  });
}

void Hub::receive_in_order(int worker, const Get& get, Time now) {
  const auto found = values_.find(get.key);
  if (found != values_.end()) {
    outgoing_.push_back({worker, Value{get.call, found->second}});
  } else if (!who_left_.empty()) {
    outgoing_.push_back({worker, Failed{get.call, ErrorKind::lost, who_left_}});
  } else {
    gets_.push_back({worker, get, after(now, get.limit_ms)});
  }
}

void Hub::receive_in_order(int worker, const Gather& gather, Time now) {
  const Place place{gather.stream, gather.step};
  auto found = gathers_.find(place);
  if (found == gathers_.end()) {
    PendingGather pending{.what = gather.what};
    pending.by_worker.resize(workers_.size());
    for (int other = 0; other < num_workers(); ++other) {
      if (!is_here(other) && find_text(place, pending, other) == nullptr) {
        outgoing_.push_back({worker, Failed{gather.call, ErrorKind::lost, who_left_}});
        return;
      }
    }
    found = gathers_.emplace(place, std::move(pending)).first;
  }
  PendingGather& pending = found->second;
  if (find_text(place, pending, worker) != nullptr) throw WireError("a worker comes twice to one all_gather");
  pending.by_worker[static_cast<std::size_t>(worker)] = gather;
  const Time deadline = after(now, gather.limit_ms);
  if (deadline < pending.deadline) {
    pending.deadline = deadline;
    pending.limit_ms = gather.limit_ms;
  }
  if (pending.failed) {
    outgoing_.push_back({worker, Failed{gather.call, pending.failed->kind, pending.failed->text}});
  } else if (gather.what != pending.what) {
    const auto first = std::ranges::find_if(
        pending.by_worker, [&](const auto& other) { return other && other->what == pending.what; });
    fail(pending, ErrorKind::mismatch,
         concat(label(worker), " exchanges ", in_quotes(gather.what), " where ",
                label(static_cast<int>(first - pending.by_worker.begin())), " exchanges ",
                in_quotes(pending.what)));
  }
  if (complete(place, pending)) gathers_.erase(found);
}

template <class Predicate>
void Hub::erase_gathers_if(const Predicate& predicate) {
  for (auto it = gathers_.begin(); it != gathers_.end();)
    it = predicate(it->first, it->second) ? gathers_.erase(it) : std::next(it);
}

void Hub::receive_in_order(int worker, const StreamEnd& end) {
  std::vector<std::optional<std::string>>& ends = streams_[end.stream];
  ends.resize(workers_.size());
  auto& own = ends[static_cast<std::size_t>(worker)];
  if (own) throw WireError("a worker ends a stream twice");
  own = end.own;
  erase_gathers_if([&](Place place, PendingGather& pending) {
    return place.first == end.stream && complete(place, pending);
  });
  forget_ended_streams();
}

void Hub::forget_ended_streams() {
  std::erase_if(streams_, [&](const auto& stream) {
    for (int worker = 0; worker < num_workers(); ++worker)
      if (is_here(worker) && !stream.second[static_cast<std::size_t>(worker)]) return false;
    return true;
  });
}

const std::string* Hub::find_text(Place place, const PendingGather& pending, int worker) const {
  const auto index = static_cast<std::size_t>(worker);
  if (const auto& own = pending.by_worker[index]) return &own->own;
  const auto stream = streams_.find(place.first);
  return stream != streams_.end() && stream->second[index] ? &*stream->second[index] : nullptr;
}

bool Hub::complete(Place place, PendingGather& pending) {
  std::vector<std::string> all;
  std::size_t num_bytes = 0;
  bool is_over = true;
  for (int worker = 0; worker < num_workers(); ++worker) {
    const std::string* const text = find_text(place, pending, worker);
    if (text == nullptr) {
      is_over = is_over && !is_here(worker);
      continue;
    }
    num_bytes += text->size() + sizeof(std::uint32_t);
    all.push_back(*text);
  }
  if (pending.failed || static_cast<int>(all.size()) < num_workers()) return is_over;
  if (num_bytes > kMaxFrameBytes / 2) {
    fail(pending, ErrorKind::invalid_argument, concat("the texts have ", num_bytes, " bytes together"));
    return is_over;
  }
  for (int to = 0; to < num_workers(); ++to)
    if (const auto& own = pending.by_worker[static_cast<std::size_t>(to)])
      outgoing_.push_back({to, Gathered{own->call, all}});
  return is_over;
}

void Hub::fail(PendingGather& pending, ErrorKind kind, std::string text) {
  for (int worker = 0; worker < num_workers(); ++worker) {
    const auto& own = pending.by_worker[static_cast<std::size_t>(worker)];
    if (own && is_here(worker)) outgoing_.push_back({worker, Failed{own->call, kind, text}});
  }
  pending.deadline = Time::max();
  pending.failed = Failed{0, kind, std::move(text)};
}

void Hub::lose(int worker, std::string_view how) {
  lose_because(worker, concat(label(worker), " was lost: ", how));
}

void Hub::lose_because(int worker, std::string cause) {
  if (!is_here(worker)) return;
  send_to_all(Lost{worker, std::move(cause)});
  worker_at(worker).is_here = false;
  has_lost_ = true;
  gets_.clear();  // whoever hears of it fails all its calls
  gathers_.clear();
  streams_.clear();
}

void Hub::leave(int worker) {
  if (!is_here(worker)) return;
  worker_at(worker).is_here = false;
  worker_at(worker).has_left = true;
  send_to_all(Left{worker});
  const std::string text = concat(label(worker), " has left");
  if (who_left_.empty()) who_left_ = text;
  for (const PendingGet& pending : std::exchange(gets_, {}))
    outgoing_.push_back({pending.worker, Failed{pending.get.call, ErrorKind::lost, text}});
  erase_gathers_if([&](Place place, PendingGather& pending) {
    if (!pending.failed && find_text(place, pending, worker) == nullptr) fail(pending, ErrorKind::lost, text);
    return complete(place, pending);
  });
  forget_ended_streams();
}

void Hub::expire(Time now) {
  std::erase_if(gets_, [&](const PendingGet& pending) {
    if (pending.deadline > now) return false;
    outgoing_.push_back(
        {pending.worker, Failed{pending.get.call, ErrorKind::timeout,
                                concat("no worker has set it within ", pending.get.limit_ms, " ms")}});
    return true;
  });
  for (auto& [place, pending] : gathers_)
    if (pending.deadline <= now)
      fail(pending, ErrorKind::timeout,
           concat("not all workers have come within ", pending.limit_ms, " ms: missing ",
                  missing(place, pending)));
}

Hub::Time Hub::next_deadline() const {
  Time next = Time::max();
  for (const PendingGet& pending : gets_) next = std::min(next, pending.deadline);
  for (const auto& [place, pending] : gathers_) next = std::min(next, pending.deadline);
  return next;
}

std::vector<Hub::Outgoing> Hub::take_outgoing() { return std::exchange(outgoing_, {}); }

}  // namespace lockstep::detail::control

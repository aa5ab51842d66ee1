#include "workers/control/control_connection.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "detail/exception_text.hpp"
#include "detail/expects.hpp"
#include "detail/file_descriptor.hpp"
#include "detail/in_quotes.hpp"
#include "detail/parking.hpp"
#include "detail/start_thread.hpp"
#include "workers/control/errors.hpp"
#include "workers/control/leader_endpoint.hpp"
#include "workers/control/start.hpp"
#include "workers/control/worker_endpoint.hpp"

namespace lockstep::detail {

using namespace control;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxFailureBytes = 1 << 16;
constexpr std::chrono::milliseconds kMemoryPause{10};  // where there is no memory to end in order
constexpr int kThreadsPerCall = 2;                     // the caller, and the one that answers

void expect_size(std::string_view call, const std::string& text) {
  LOCKSTEP_EXPECTS(text.size() <= kMaxTextBytes, InvalidArgument, call, ": a text has ", text.size(),
                   " bytes, and may have ", kMaxTextBytes, ". Exchange less at a time.");
}

constexpr std::uint32_t kNoStream = 0;  // the stream of calls that name none

std::uint64_t limit_ms(backend::Deadline deadline) {
  if (!deadline) return kNoLimit;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, rest.count()));
}

}  // namespace

struct ControlConnection::State {
  State(const ControlOptions& options, ControlListener& to)
      : listener(to), worker(options.worker), session(options.worker, labels_of(options.addresses)) {
    StartPatience patience(options.start_limit, options.log_interval, options.is_outdated);
    const Hello hello = hello_of(options);
    if (worker == 0) {
      end = std::make_unique<LeaderEndpoint>(session, hello, listening_address(options), options);
    } else {
      Link link = join_leader(options.addresses[0], hello, options.token, session, patience);
      end = std::make_unique<WorkerEndpoint>(worker, session, std::move(link), options.silence_limit);
      if (options.goes_on_without) patience.end_limit();  // worker 0 ends that start, or is lost
    }
    wake();  // the leader's first answer may have come with others
    thread =
        start_thread("The start of the workers: the thread of the control connection", [this] { serve(); });
    try {
      await_others(patience, options.goes_on_without);
    } catch (...) {
      leave();
      throw;
    }
  }

  ~State() { leave(); }

  void await_others(StartPatience& patience, bool goes_on_without) {
    while (!parking.wait(
        kThreadsPerCall, [this] { return session.has_settled(); }, patience.rest())) {
      const std::string who = [this] {
        const std::lock_guard lock(mutex);
        return concat(session.missing(), " did not come");
      }();
      if (patience.look(who)) continue;
      const std::lock_guard lock(mutex);
      if (session.has_settled()) break;
      if (goes_on_without) {
        end->start_without_missing(concat("it did not come within ", patience.limit_text()));
        return wake();
      }
      end->refuse(patience.timeout(who));
      raise_refused(patience.timeout(who));
    }
    const std::lock_guard lock(mutex);
    if (session.refused()) raise_refused(*session.refused());
  }

  bool is_own_thread() const noexcept { return served == this; }

  // The thread. What it meets, as a lack of memory, does not end the process: the connection is over.
  void serve() noexcept {
    served = this;
    try {
      serve_until_over();
    } catch (...) {
      break_off(std::current_exception());
    }
  }

  void serve_until_over() {
    std::vector<pollfd> watched;
    for (bool is_over = false; !is_over;) {
      watched.assign(1, {wake_up.get(), POLLIN, 0});
      Clock::time_point next;
      {
        const std::lock_guard lock(mutex);
        next = end->watch(watched);
      }
      const auto rest = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
      if (::poll(watched.data(), watched.size(),
                 static_cast<int>(std::clamp<std::int64_t>(rest, 0, 60'000))) < 0)
        for (pollfd& one : watched) one.revents = 0;
      std::uint64_t ignored;
      static_cast<void>(!::read(wake_up.get(), &ignored, sizeof ignored));
      const auto now = Clock::now();  // before anything is read
      std::vector<Event> events;
      {
        const std::lock_guard lock(mutex);
        if (failure) std::rethrow_exception(failure);
        end->serve(std::span(watched).subspan(1), now);
        events = session.take_events();
        is_over = end->is_over();
      }
      parking.wake();
      for (Event& event : events)
        if (!has_left.load()) tell(std::move(event));
    }
  }

  /// The others see their connections closed, and this worker is told why. Repeats it while there is no
  /// memory for it.
  void break_off(const std::exception_ptr& error) noexcept {
    for (;; std::this_thread::sleep_for(kMemoryPause)) {
      try {
        const std::string how =
            concat("this worker's control connection has failed: ", exception_text(error));
        {
          const std::lock_guard lock(mutex);
          end.reset();
          session.lose_leader(how);
        }
        parking.wake();
        if (!has_left.load())
          tell({Event::Kind::lost, 0, 0, concat(session.labels()[0], " was lost: ", how)});
        return;
      } catch (...) {
        continue;
      }
    }
  }

  /// Changes session and end. If that fails messages may be lost: the connection is over.
  template <class F>
  void change(const F& function) {
    const std::lock_guard lock(mutex);
    try {
      function();
    } catch (...) {
      failure = std::current_exception();
      wake();
      throw;
    }
  }

  void tell(Event event) {
    switch (event.kind) {
      case Event::Kind::failure: return listener.on_failure(event.worker, event.epoch, std::move(event.text));
      case Event::Kind::lost: return listener.on_lost(event.worker, std::move(event.text));
      case Event::Kind::left: return listener.on_left(event.worker);
    }
  }

  /// Waits for the leader's answer. @param make  the message, from the call's number.
  template <class Answer, class Make>
  Answer call(std::string_view name, const Make& make, const std::atomic<bool>* is_cancelled = nullptr) {
    LOCKSTEP_EXPECTS(!is_own_thread(), ContextError, name,
                     ": a listener of the control connection would wait for itself. Make the call on another "
                     "thread.");
    PendingCall pending;
    std::uint64_t number = 0;
    const auto cancelled = [&] { return is_cancelled != nullptr && is_cancelled->load(); };
    change([&] {
      number = session.add(pending);
      try {
        // Nothing of a stream may follow its end, which is sent with the mutex held.
        if (!pending.is_answered.load() && !cancelled()) end->send(make(number));
      } catch (...) {
        session.remove(number);
        throw;
      }
    });
    wake();  // the leader has a deadline to keep, and any link may have more to send
    parking.wait(kThreadsPerCall, [&] { return pending.is_answered.load() || cancelled(); });
    if (!pending.is_answered.load()) {
      const std::lock_guard lock(mutex);
      session.remove(number);
      if (!pending.is_answered.load())
        raise<CollectiveAborted>({__FILE__, __LINE__, __func__}, concat(name, ": this worker has left it"));
    }
    if (const Failed* const failed = std::get_if<Failed>(&pending.answer)) raise_failed(name, *failed);
    if (Answer* const answer = std::get_if<Answer>(&pending.answer)) return std::move(*answer);
    raise_failed(name, {0, ErrorKind::lost, concat(session.labels()[0], " was lost: ", kNoProtocol)});
  }

  /// Sends what nobody answers. Nothing to do once the connection is over.
  void post(Message message) {
    change([&] {
      if (!session.ended()) end->send(std::move(message));
    });
    wake();
  }

  /// The thread serves at once, and calls look at their answers.
  void wake() noexcept {
    parking.wake();
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_up.get(), &one, sizeof one));
  }

  void leave(std::string_view how = {}) noexcept {
    for (bool is_done = has_left.exchange(true); !is_done;) {
      try {
        const std::lock_guard lock(mutex);
        if (end) {
          const std::string& label = session.labels()[static_cast<std::size_t>(worker)];
          session.leave();
          end->leave(how.empty() ? std::string() : concat(label, " was lost: ", how));
        }
        is_done = true;
      } catch (...) {  // no memory
        std::this_thread::sleep_for(kMemoryPause);
      }
    }
    wake();
    if (is_own_thread()) return;
    const std::lock_guard lock(joining);
    if (thread.joinable()) thread.join();
  }

  static inline thread_local const State* served = nullptr;  // by this thread

  ControlListener& listener;
  const int worker;
  Parking parking;
  std::mutex mutex;  // guards session, end and failure
  Session session;
  std::unique_ptr<Endpoint> end;  // null once it has failed
  std::exception_ptr failure;     // of a change; the thread breaks off
  std::atomic<bool> has_left{false};
  FileDescriptor wake_up = open_wake_up();
  std::mutex joining;  // of the thread
  std::thread thread;
};

ControlConnection::ControlConnection(ControlOptions options, ControlListener& listener) {
  check(options);
  state_ = std::make_unique<State>(options, listener);
}

ControlConnection::~ControlConnection() {
  // The thread is the parent's, and may hold anything: all is left as it is.
  if (process_.is_forked()) static_cast<void>(state_.release());
}

void ControlConnection::expect_own_process(std::string_view what) const {
  LOCKSTEP_EXPECTS(
      !process_.is_forked(), ContextError, what,
      ": this process is a fork of the worker that is connected. Make the strategy after the fork.");
}

void ControlConnection::set(const std::string& key, const std::string& value) {
  const std::string call = concat("set of ", in_quotes(key));
  expect_own_process(call);
  expect_size(call, key);
  expect_size(call, value);
  std::optional<Failed> ended;
  state_->change([&] {
    ended = state_->session.ended();
    if (!ended) state_->end->send(Set{key, value});
  });
  if (ended) raise_failed(call, *ended);
  state_->wake();
}

std::string ControlConnection::get(const std::string& key, backend::Deadline deadline) {
  const std::string call = concat("get of ", in_quotes(key));
  expect_own_process(call);
  expect_size(call, key);
  return state_->call<Value>(call,
                             [&](std::uint64_t number) {
                               return Get{number, limit_ms(deadline), key};
                             })
      .value;
}

void ControlConnection::erase(const std::string& prefix) {
  const std::string call = concat("erase of ", in_quotes(prefix));
  expect_own_process(call);
  expect_size(call, prefix);
  state_->post(Erase{prefix});
}

std::vector<std::string> ControlConnection::all_gather(std::string_view what, std::string own,
                                                       backend::Deadline deadline) {
  const std::string call = concat("all_gather of ", in_quotes(what));
  expect_own_process(call);
  expect_size(call, std::string(what));
  expect_size(call, own);
  return state_
      ->call<Gathered>(
          call,
          [&](std::uint64_t number) {
            return Gather{
                number,        kNoStream, state_->session.next_step(), limit_ms(deadline), std::string(what),
                std::move(own)};
          })
      .all;
}

std::vector<std::string> ControlConnection::all_gather(std::uint32_t stream, std::uint32_t step,
                                                       std::string_view what, std::string own,
                                                       const std::atomic<bool>& is_cancelled) {
  const std::string call = concat("all_gather of ", in_quotes(what));
  expect_own_process(call);
  expect_size(call, std::string(what));
  expect_size(call, own);
  return state_
      ->call<Gathered>(
          call,
          [&](std::uint64_t number) {
            return Gather{number, stream, step, kNoLimit, std::string(what), std::move(own)};
          },
          &is_cancelled)
      .all;
}

void ControlConnection::end_stream(std::uint32_t stream, std::string own) noexcept {
  if (process_.is_forked()) return;
  own.resize(std::min(own.size(), kMaxFailureBytes));
  try {
    state_->post(StreamEnd{stream, std::move(own)});
  } catch (...) {  // the connection is over
  }
}

void ControlConnection::announce_failure(std::uint64_t epoch, std::string_view text, bool to_itself) {
  expect_own_process("announce_failure");
  state_->post(
      Failure{to_itself ? kForAll : state_->worker, epoch, std::string(text.substr(0, kMaxFailureBytes))});
}

void ControlConnection::with_waiting_list(FunctionRef<void(WaitingList& list)> f, bool changes) {
  if (process_.is_forked()) return;
  const std::lock_guard lock(state_->mutex);
  if (changes) state_->wake();  // the thread then waits for the mutex, also if f throws
  if (WaitingList* const list = state_->end ? state_->end->waiting_list() : nullptr) f(*list);
}

void ControlConnection::break_off(const std::exception_ptr& error) noexcept {
  if (process_.is_forked()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->failure = error;
  }
  state_->wake();
}

void ControlConnection::leave(std::string_view how) noexcept {
  if (!process_.is_forked()) state_->leave(how);
}

int ControlConnection::worker() const noexcept { return state_->worker; }

int ControlConnection::num_workers() const noexcept {
  return static_cast<int>(state_->session.labels().size());
}

const std::string& ControlConnection::label(int worker) const {
  return state_->session.labels()[static_cast<std::size_t>(worker)];
}

int ControlConnection::host(int worker) const {
  const auto& hosts = state_->session.hosts();
  const auto first = std::ranges::find(hosts, hosts[static_cast<std::size_t>(worker)]);
  return static_cast<int>(first - hosts.begin());
}

}  // namespace lockstep::detail

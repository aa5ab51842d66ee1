#include "workers/worker_meeting.hpp"

#include <algorithm>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/exception_text.hpp"
#include "detail/expects.hpp"
#include "detail/splitmix64.hpp"

namespace lockstep::detail {
namespace {

constexpr SourceLocation kHere{__FILE__, __LINE__, "WorkerMeeting"};

constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);  // nanoseconds overflow

bool is_mismatch(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CollectiveMismatch&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

// Workers run the same build, with the same hash.
std::uint64_t WorkerMeeting::digest(const Message& message) {
  const std::uint64_t number = std::uint64_t{message.run} << 32 | message.call;
  return splitmix64(splitmix64(number) + static_cast<std::uint64_t>(message.kind)) ^
         std::hash<std::string_view>{}(message.operation);
}

WorkerMeeting::WorkerMeeting(std::vector<std::string> labels, int worker,
                             std::unique_ptr<MessageExchange> exchange)
    : labels_(std::move(labels)),
      worker_(worker),
      exchange_(std::move(exchange)),
      messages_(labels_.size()),
      failures_(labels_.size()),
      has_left_(labels_.size()) {}

void WorkerMeeting::meet(std::string_view operation, std::span<const std::byte> message,
                         std::chrono::milliseconds timeout, Describe describe) {
  exchange(Kind::call, operation, message, timeout, describe);
}

void WorkerMeeting::refuse(std::string_view operation, const std::exception_ptr& error,
                           std::chrono::milliseconds timeout, Describe describe) {
  Kind kind = Kind::other;
  try {
    std::rethrow_exception(error);
  } catch (const CollectiveMismatch&) {
    kind = Kind::mismatch;
  } catch (const InvalidArgument&) {
    kind = Kind::invalid_argument;
  } catch (const Unsupported&) {
    kind = Kind::unsupported;
  } catch (const ContextError&) {
    kind = Kind::context;
  } catch (const NotFound&) {
    kind = Kind::not_found;
  } catch (...) {
  }
  const std::string text = exception_text(error);
  const std::uint64_t num_rounds = num_rounds_;
  try {
    exchange(kind, operation, std::as_bytes(std::span(text)), timeout, describe);
  } catch (...) {  // whatever the others brought, this worker's own fault is what its caller can mend
  }
  if (is_pending_ || num_rounds_ == num_rounds) std::rethrow_exception(error);  // it has heard nothing
  std::rethrow_exception(with_difference(error, [this] { return difference(); }));
}

void WorkerMeeting::exchange(Kind kind, std::string_view operation, std::span<const std::byte> content,
                             std::chrono::milliseconds timeout, Describe describe) {
  if (is_over_before(num_rounds_ + 1)) {
    const std::lock_guard lock(mutex_);
    throw_unusable(operation);
  }
  if (is_pending_) {  // the others have left the round, which is complete when all messages are there
    if (!wait(operation, timeout)) throw_incomplete(operation);
    for (int w = 0; w < num_workers(); ++w) epoch_ = std::max(epoch_, decode(w).header.epoch);
  }
  Message own{.kind = kind, .operation = operation, .content = content};
  std::string history;
  for (bool is_full = false;;) {
    throw_if_failed(operation);
    if (is_full && describe) own.history = history = describe();
    own.run = run_;
    own.call = call_.load(std::memory_order_relaxed);
    own.last_failure = last_failure_;
    own.header = {epoch_, digest(own), is_full};
    make_round(own, timeout);

    bool are_alike = kind == Kind::call, are_full = true;
    std::uint64_t newest = epoch_;
    for (int w = 0; w < num_workers(); ++w) {
      const Header theirs = decode(w).header;
      are_alike = are_alike && theirs.epoch == epoch_ && theirs.digest == own.header.digest;
      are_full = are_full && theirs.is_full;
      newest = std::max(newest, theirs.epoch);
    }
    if (are_alike) break;
    is_full = !are_full;
    if (is_full) continue;
    // Those that are behind learn of the failure now, and come again.
    bool are_of_one_epoch = true;
    for (int w = 0; w < num_workers(); ++w) {
      const Message message = decode(w);
      are_of_one_epoch = are_of_one_epoch && message.header.epoch == epoch_;
      if (newest > epoch_ && message.header.epoch == newest) {
        const std::lock_guard lock(mutex_);
        throw_failed(operation, newest, message.last_failure);
      }
    }
    if (are_of_one_epoch) throw_disagreement();
  }
  for (int w = 0; w < num_workers(); ++w) messages_[static_cast<std::size_t>(w)] = decode(w).content;
  failed_together_ = false;
  ++call_;
}

void WorkerMeeting::throw_if_failed(std::string_view operation) {
  if (num_reports_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  for (const std::optional<Failure>& failure : failures_) {
    if (!failure || failure->epoch < epoch_ || failure->num_rounds > num_rounds_) continue;
    throw_failed(operation, failure->epoch + 1, failure->text);
  }
}

void WorkerMeeting::make_round(const Message& own, std::chrono::milliseconds timeout) {
  writer_.clear();
  writer_.put(own.header.epoch);
  writer_.put(own.header.digest);
  writer_.put(own.header.is_full);
  if (own.header.is_full) {
    writer_.put(own.run);
    writer_.put(own.call);
    writer_.put(own.kind);
    writer_.put_text(own.operation);
    writer_.put_text(own.history);
    writer_.put_text(own.last_failure);
  }
  writer_.put_bytes(own.content);
  exchange_->post(writer_.bytes());
  ++num_rounds_;
  is_pending_ = true;
  if (!wait(own.operation, timeout)) throw_incomplete(own.operation);
}

bool WorkerMeeting::wait(std::string_view operation, std::chrono::milliseconds timeout) {
  const auto is_stopped = [&] {
    if (is_over_before(num_rounds_)) return true;
    const std::lock_guard lock(mutex_);
    return find_failure() != nullptr;
  };
  std::uint64_t seen = 0;
  const auto stop = [&] {
    const std::uint64_t now = num_reports_.load(std::memory_order_acquire);
    return now != std::exchange(seen, now) && is_stopped();
  };
  backend::Deadline deadline;
  if (timeout.count() > 0) deadline = std::chrono::steady_clock::now() + std::min(timeout, kLongestTimeout);
  try {
    if (exchange_->wait(stop, deadline)) {
      is_pending_ = false;
      return true;
    }
  } catch (const CollectiveError& error) {
    await_report();
    if (is_stopped()) return false;
    break_off(error.what());
    if (!is_lost()) throw;
    return false;
  }
  if (is_stopped()) return false;
  std::string missing;
  bool is_known = true;
  for (int w = 0; w < num_workers(); ++w) {
    const std::optional<bool> has_arrived = exchange_->has_arrived(w);
    is_known = is_known && has_arrived.has_value();
    if (w != worker_ && !has_arrived.value_or(false))
      missing += concat(missing.empty() ? "" : ", ", label(w));
  }
  const std::string last_calls = say_ ? say_() : std::string();  // others are asked, and may come, meanwhile
  const std::lock_guard lock(mutex_);
  if (find_failure() != nullptr || is_over_before(num_rounds_)) return false;
  cause_ = concat(call_text(operation), ": after ", timeout.count(), " ms ",
                  is_known ? "these" : "some of these", " workers had not come: ", missing, ".", last_calls,
                  " Make the same calls on every worker, or raise the time limit.");
  state_.store(State::timed_out, std::memory_order_release);
  raise<CollectiveTimeout>(kHere, cause_);
}

const WorkerMeeting::Failure* WorkerMeeting::find_failure() const {
  for (const std::optional<Failure>& failure : failures_)
    if (failure && failure->epoch >= epoch_ && failure->num_rounds < num_rounds_) return &*failure;
  return nullptr;
}

WorkerMeeting::Message WorkerMeeting::decode(int worker) const {
  ByteReader reader(exchange_->message(worker));
  Message message{};
  message.header.epoch = reader.get<std::uint64_t>();
  message.header.digest = reader.get<std::uint64_t>();
  message.header.is_full = reader.get<bool>();
  if (message.header.is_full) {
    message.run = reader.get<std::uint32_t>();
    message.call = reader.get<std::uint32_t>();
    message.kind = reader.get_enum<Kind>(kNumKinds);
    message.operation = reader.get_text();
    message.history = reader.get_text();
    message.last_failure = reader.get_text();
  }
  message.content = reader.rest();
  return message;
}

void WorkerMeeting::throw_failed(std::string_view operation, std::uint64_t next_epoch,
                                 std::string_view failure) {
  const bool is_mismatch = failure.starts_with(kMismatch);
  const std::string message = concat(call_text(operation), ": ", failure.substr(failure.empty() ? 0 : 1));
  if (failure.starts_with(kTimedOut) && state_.load() == State::usable) {
    cause_ = failure.substr(1);
    state_.store(State::timed_out, std::memory_order_release);
  }
  enter_epoch(next_epoch, failure);
  failed_together_ = true;
  if (is_mismatch) raise<CollectiveMismatch>(kHere, message);
  raise<CollectiveAborted>(kHere, message);
}

void WorkerMeeting::enter_epoch(std::uint64_t epoch, std::string_view failure) {
  epoch_ = epoch;
  run_ = 0;
  call_ = 0;
  last_failure_ = failure;
}

std::string WorkerMeeting::call_text(std::string_view operation) const {
  return concat(operation, ", call ", call_.load(std::memory_order_relaxed));
}

void WorkerMeeting::fail(const std::exception_ptr& error, Announce announce) noexcept {
  end_call();
  if (std::exchange(failed_together_, false)) return;
  const char kind = state_.load() == State::timed_out ? kTimedOut : is_mismatch(error) ? kMismatch : kOther;
  const std::string failure = concat(kind, label(worker_), " has failed: ", exception_text(error));
  announce(epoch_, num_rounds_, failure);
  enter_epoch(epoch_ + 1, failure);
}

void WorkerMeeting::report_failure(int worker, std::uint64_t epoch, std::uint64_t num_rounds,
                                   std::string failure) {
  {
    const std::lock_guard lock(mutex_);
    failures_[static_cast<std::size_t>(worker)] = {epoch, num_rounds, std::move(failure)};
    num_reports_.fetch_add(1, std::memory_order_release);
  }
  reported_.notify_all();
  exchange_->interrupt();
}

void WorkerMeeting::report_left(int worker, std::uint64_t num_rounds) {
  {
    const std::lock_guard lock(mutex_);
    if (has_left_[static_cast<std::size_t>(worker)]) return;  // the strategy, and now the cluster
    has_left_[static_cast<std::size_t>(worker)] = true;
    // Of several the one that left first counts: all later rounds lack its message.
    const State state = state_.load(std::memory_order_relaxed);
    const bool is_first = state == State::usable ||
                          (state == State::left && num_rounds < left_after_.load(std::memory_order_relaxed));
    if (!is_first) return;
    cause_ = concat(label(worker),
                    " has left: its strategy was destroyed. Destroy the strategies of all workers after the "
                    "same calls.");
    left_after_.store(num_rounds, std::memory_order_relaxed);
    state_.store(State::left, std::memory_order_release);
    num_reports_.fetch_add(1, std::memory_order_release);
  }
  reported_.notify_all();
  exchange_->interrupt();
}

void WorkerMeeting::report_lost(const std::shared_ptr<backend::Loss>& loss) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (loss_ != nullptr) return;
    loss_ = loss;
    state_.store(State::lost, std::memory_order_release);
    num_reports_.fetch_add(1, std::memory_order_release);
  }
  reported_.notify_all();
  exchange_->interrupt();
}

void WorkerMeeting::throw_if_lost(std::string_view operation) const {
  if (!is_lost()) return;
  const std::lock_guard lock(mutex_);
  throw_lost(operation);
}

void WorkerMeeting::throw_lost(std::string_view operation) const {
  loss_->tell();
  raise<PeerLost>(kHere, concat(call_text(operation), ": ", loss_->cause()));
}

void WorkerMeeting::await_report() noexcept {
  using namespace std::chrono_literals;
  // Worker 0's own report would be the first that the others hear: it waits longer for those that know more.
  const auto patience = report_limit_ + (worker_ == 0 ? 2s : 1s);
  std::unique_lock lock(mutex_);
  const std::uint64_t seen = num_reports_.load();
  reported_.wait_for(lock, patience,
                     [&] { return state_.load() == State::lost || num_reports_.load() != seen; });
}

bool WorkerMeeting::await_loss(std::chrono::milliseconds limit) noexcept {
  std::unique_lock lock(mutex_);
  return reported_.wait_for(lock, limit, [&] { return state_.load() == State::lost; });
}

void WorkerMeeting::break_off(const std::string& cause) noexcept {
  if (state_.load(std::memory_order_acquire) == State::lost) return;
  if (end_) end_(cause);
}

void WorkerMeeting::throw_incomplete(std::string_view operation) {
  const std::lock_guard lock(mutex_);
  if (const Failure* const failure = find_failure())
    throw_failed(operation, failure->epoch + 1, failure->text);
  throw_unusable(operation);
}

void WorkerMeeting::throw_unusable(std::string_view operation) {
  const std::string text = concat(call_text(operation), ": ", cause_);
  failed_together_ = true;
  switch (state_.load(std::memory_order_relaxed)) {
    case State::left: raise<ContextError>(kHere, text);
    case State::timed_out:
      raise<CollectiveAborted>(kHere, concat(call_text(operation), ": an earlier call has failed: ", cause_));
    default: throw_lost(operation);
  }
}

}  // namespace lockstep::detail

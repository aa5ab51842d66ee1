#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/loss.hpp>
#include <lockstep/detail/function_ref.hpp>

#include "trace/call_difference.hpp"
#include "workers/byte_archive.hpp"
#include "workers/message_exchange.hpp"

namespace lockstep::detail {

/// Where the workers of a strategy meet, once for each call that concerns all of them. Each brings a message
/// and gets all workers' messages, or all throw.
///
/// A worker whose call fails before it meets the others announces that (`fail`). Whoever waits for it is
/// released and fails, too. The number of failures, the epoch, goes with every message, so that workers that
/// learn of a failure late fail once, and all are in step again.
///
/// Once a round has every worker's message, all workers see it complete: a failure releases a wait only
/// where the worker that failed has not sent its message of the round.
class WorkerMeeting {
 public:
  /// Tells the other workers that this one has failed in an epoch, after it sent its message of round
  /// `num_rounds`. The text is for report_failure.
  using Announce = FunctionRef<void(std::uint64_t epoch, std::uint64_t num_rounds, const std::string& text)>;

  /// @param labels  of the workers: "worker 1 (10.0.0.2:2222)".
  WorkerMeeting(std::vector<std::string> labels, int worker, std::unique_ptr<MessageExchange> exchange);
  /// @param say  text for a time-out's message: what the workers did last. Empty: nothing is known.
  void on_time_out(std::function<std::string()> say) { say_ = std::move(say); }
  /// @param limit  within which the loss of a worker is reported, also where the one that finds it out is
  /// lost itself. Before any call.
  void expect_reports_within(std::chrono::milliseconds limit) { report_limit_ = limit; }
  /// @param end  tells the other workers that this one cannot go on, and why; called by `break_off`.
  void on_break_off(std::function<void(const std::string& cause)> end) { end_ = std::move(end); }

  int num_workers() const noexcept { return static_cast<int>(labels_.size()); }
  int worker() const noexcept { return worker_; }
  const std::string& label(int worker) const { return labels_[static_cast<std::size_t>(worker)]; }

  /// Gives the calls up to this one for messages, as CallHistory, where these are needed.
  using Describe = FunctionRef<std::string()>;
  /// A group of ranks meets here. @return its number, by which the workers' histories are compared. All
  /// workers make theirs in the same order.
  int add_group() noexcept { return num_groups_++; }

  /// Sends `message`, and waits until every worker has made the same call. One thread at a time.
  /// @param describe  may be empty.
  /// @throws CollectiveMismatch  workers make different calls: names both. @throws ContextError  a worker has
  /// ended its run, or left. @throws CollectiveAborted  a worker's call or run has failed: repeats its text.
  /// @throws CollectiveTimeout  not all came within `timeout` (0: no limit); the meeting has failed for good.
  /// @throws PeerLost  a worker is lost.
  /// @throws Error  what another worker gave to `refuse`.
  void meet(std::string_view operation, std::span<const std::byte> message, std::chrono::milliseconds timeout,
            Describe describe = {});
  /// In place of `meet`, where this worker's part in the call is wrong: throws `error`, and the other workers
  /// throw it where they meet.
  [[noreturn]] void refuse(std::string_view operation, const std::exception_ptr& error,
                           std::chrono::milliseconds timeout, Describe describe = {});
  /// What a worker brought to the last meeting; valid until the next one.
  std::span<const std::byte> message(int worker) const { return messages_[static_cast<std::size_t>(worker)]; }

  /// This worker begins a call, which end_call or `fail` ends.
  void begin_call() noexcept {
    failed_together_ = false;
    is_in_call_.store(true);
  }
  void end_call() noexcept { is_in_call_.store(false); }
  /// Any thread.
  bool is_in_call() const noexcept { return is_in_call_.load(); }
  /// This worker begins a run: meetings are counted from 0.
  void begin_run() noexcept {
    ++run_;
    call_ = 0;
  }
  /// A call of this worker has thrown `error`: begins the next epoch, and announces the failure, unless the
  /// call failed together with the others'.
  void fail(const std::exception_ptr& error, Announce announce) noexcept;

  // What the connection between the workers reports. Any thread.
  /// @param failure  what the worker has announced.
  void report_failure(int worker, std::uint64_t epoch, std::uint64_t num_rounds, std::string failure);
  /// A worker has left, after it sent its message of round `num_rounds`. The first report of each counts.
  void report_left(int worker, std::uint64_t num_rounds);
  std::uint64_t num_rounds() const noexcept { return num_rounds_; }
  /// How many failures there were. Equal on all workers once each has thrown. Of the calling thread's.
  std::uint64_t epoch() const noexcept { return epoch_; }
  /// The first loss is kept.
  void report_lost(const std::shared_ptr<backend::Loss>& loss) noexcept;

  /// This worker's part in a call has failed: if that is because a worker is lost, the report comes within
  /// the limit of expect_reports_within, and says which. Returns when it has come, or none has for a second
  /// or two longer.
  void await_report() noexcept;
  /// Returns true once the meeting has ended for all, or false after the limit.
  bool await_loss(std::chrono::milliseconds limit) noexcept;
  /// This worker cannot do its part in a call that the workers have agreed on: ends the meeting for all of
  /// them. Nothing to do once it has ended. Any thread.
  void break_off(const std::string& cause) noexcept;

  /// @throws PeerLost  a worker is lost, or has broken off.
  void throw_if_lost(std::string_view operation) const;
  bool is_lost() const noexcept { return state_.load(std::memory_order_acquire) == State::lost; }
  /// What report_lost was given; null: nothing.
  std::shared_ptr<backend::Loss> loss() const {
    const std::lock_guard lock(mutex_);
    return loss_;
  }

 private:
  enum class State : std::uint8_t { usable, left, timed_out, lost };
  enum class Kind : std::uint8_t { call, invalid_argument, mismatch, unsupported, context, not_found, other };
  static constexpr std::size_t kNumKinds = 7;
  // First character of a failure's text: which exception the other workers throw.
  static constexpr char kMismatch = 'm';
  static constexpr char kOther = 'o';
  static constexpr char kTimedOut = 't';  // and so do their later calls
  // What begins every message. A brief message has the content behind it, so that a short one fits into a
  // cache line; a full one says more first, and follows where the workers' headers differ.
  struct Header {
    std::uint64_t epoch;
    std::uint64_t digest;  // of the call's kind, number and operation
    bool is_full;
  };
  struct Message {
    Header header;
    // What a full message says.
    std::uint32_t run;
    std::uint32_t call;
    Kind kind;
    std::string_view operation;
    std::string_view history;       // the calls up to this one
    std::string_view last_failure;  // of the sender's last epoch
    std::span<const std::byte> content;
  };
  struct Failure {
    std::uint64_t epoch;
    std::uint64_t num_rounds;
    std::string text;
  };

  static std::uint64_t digest(const Message& message);
  void exchange(Kind kind, std::string_view operation, std::span<const std::byte> content,
                std::chrono::milliseconds timeout, Describe describe);
  /// Waits for the round under way. @return false: it is not to be completed.
  bool wait(std::string_view operation, std::chrono::milliseconds timeout);
  /// Sends this worker's message of the next round, and waits for the others'. Throws if it cannot be
  /// complete.
  void make_round(const Message& own, std::chrono::milliseconds timeout);
  void throw_if_failed(std::string_view operation);
  Message decode(int worker) const;
  /// Of full messages of one epoch.
  [[noreturn]] void throw_disagreement();
  void check_agreement() const;
  /// Another worker has failed. `mutex_` is held.
  [[noreturn]] void throw_failed(std::string_view operation, std::uint64_t next_epoch,
                                 std::string_view failure);
  void enter_epoch(std::uint64_t epoch, std::string_view failure);
  std::string call_text(std::string_view operation) const;
  /// Sentences: what two workers have called, and the first call in which they differ, if they say so.
  std::string descriptions(int a, int b) const;
  /// Of the histories of the last round's messages.
  CallDifference difference() const;
  /// A failure that keeps the round under way from being complete.
  const Failure* find_failure() const;  // `mutex_` is held
  /// Whether round `round` will not be complete, as the meeting has failed, or a worker has left before.
  bool is_over_before(std::uint64_t round) const noexcept {
    const State state = state_.load(std::memory_order_acquire);
    return state >= State::timed_out ||
           (state == State::left && left_after_.load(std::memory_order_relaxed) < round);
  }
  /// The round under way will not be complete.
  [[noreturn]] void throw_incomplete(std::string_view operation);
  // `mutex_` is held.
  [[noreturn]] void throw_unusable(std::string_view operation);
  [[noreturn]] void throw_lost(std::string_view operation) const;

  const std::vector<std::string> labels_;
  const int worker_;
  const std::unique_ptr<MessageExchange> exchange_;

  // The calling thread's.
  std::uint64_t epoch_ = 0;
  std::uint64_t num_rounds_ = 0;  // that this worker has sent a message of
  std::uint32_t run_ = 0;
  std::atomic<std::uint32_t> call_{0};
  std::atomic<bool> is_in_call_{false};
  bool is_pending_ = false;       // a round was left before it was complete
  bool failed_together_ = false;  // the last meeting threw on all workers: `fail` need not announce it
  int num_groups_ = 0;
  std::string last_failure_;
  ByteWriter writer_;
  std::vector<std::span<const std::byte>> messages_;

  std::chrono::milliseconds report_limit_{0};
  std::function<void(const std::string& cause)> end_;
  std::function<std::string()> say_;
  std::atomic<State> state_{State::usable};
  std::atomic<std::uint64_t> left_after_{0};      // the round; of State::left
  std::atomic<std::uint64_t> num_reports_{0};     // changes with what `mutex_` guards
  mutable std::mutex mutex_;                      // guards what follows
  std::vector<std::optional<Failure>> failures_;  // of each worker, the last one
  std::vector<bool> has_left_;                    // by worker
  std::string cause_;                             // of `state_`, but for State::lost
  std::shared_ptr<backend::Loss> loss_;           // of that; owners: as WorkerConnection's
  std::condition_variable reported_;              // as `num_reports_` changes
};

}  // namespace lockstep::detail

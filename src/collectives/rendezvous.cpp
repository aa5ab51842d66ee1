#include "collectives/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include <lockstep/detail/concat.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/error.hpp>

#include "detail/parking.hpp"
#include "detail/process.hpp"

namespace lockstep::detail {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : ", ") + part;
  return joined.empty() ? "none" : joined;
}

// "CPU:2" of "replica 1 (CPU:2, CPU:3)".
std::string first_device(const std::string& label) {
  const std::size_t begin = label.rfind('(') + 1;
  return label.substr(begin, label.find_first_of(",)", begin) - begin);
}

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kBytesBesideStamp = 32;  // of a message, in the line of its stamp

// Has the lines of a message behind its first bytes handed down to the cache that cores share, where the
// others' reads find them sooner: messages of 64 to 512 bytes take 0.85 of the time. For longer ones it costs
// more than it brings.
void demote([[maybe_unused]] std::span<const std::byte> message) {
#if defined(__x86_64__)
  constexpr std::size_t kMostBytes = 512;
  if (message.size() > kMostBytes) return;
  for (std::size_t i = kBytesBesideStamp; i < message.size(); i += kLineBytes)
    asm volatile("cldemote %0" : : "m"(message[i]));  // nothing where the processor does not know it
#endif
}

}  // namespace

struct Rendezvous::Impl {
  // What a rank brought to the meetings with an even and an odd index: a rank can be one meeting ahead of
  // another, never two. With a message of up to 32 bytes it is one cache line that the others read.
  struct alignas(2 * 64) Slot {  // lines are fetched in pairs
    // Index of the meeting it came to, plus one; with kLeft: of the one before which it left.
    std::atomic<std::uint64_t> stamp{0};
    std::uint64_t key = 0;
    const std::byte* read = nullptr;
    const std::byte* written = nullptr;
    std::byte bytes[ShortMessage::kMaxBytes];
    Arrival arrival;
  };
  // What only the thread that drives the rank touches, but for `busy`.
  struct alignas(64) Own {
    std::atomic<bool> busy{false};
    std::atomic<std::uint64_t> next{0};  // index of its next meeting
    bool told = false;                   // of the failure
  };
  static constexpr std::uint64_t kLeft = std::uint64_t{1} << 63;
  enum class Failure : std::uint8_t { none, left, failed, timed_out, aborted };
  enum class Judgement : std::uint8_t { complete, open };

  Impl(std::vector<std::string> names, std::string_view member_)
      : labels(std::move(names)),
        member(member_),
        slots{std::vector<Slot>(labels.size()), std::vector<Slot>(labels.size())},
        own(labels.size()) {
    for (int parity = 0; parity < 2; ++parity)
      for (const Slot& slot : slots[parity]) arrivals[parity].push_back(&slot.arrival);
  }

  Slot& slot(std::uint64_t meeting, int rank) { return slots[meeting & 1][static_cast<std::size_t>(rank)]; }
  bool has_arrived(std::uint64_t meeting, int rank) {
    return slot(meeting, rank).stamp.load(std::memory_order_seq_cst) == meeting + 1;
  }
  int num_ranks() const { return static_cast<int>(labels.size()); }
  const std::string& label(int rank) const { return labels[static_cast<std::size_t>(rank)]; }
  // Of an error about it.
  ErrorContext about(int rank, std::string_view operation) const {
    return {.operation = std::string(operation), .replica = rank, .device = first_device(label(rank))};
  }
  // As users count.
  std::uint64_t call(std::uint64_t meeting) const { return meeting - first; }
  // A rank that left instead of coming; -1: none.
  int find_left(std::uint64_t meeting) {
    for (int rank = 0; rank < num_ranks(); ++rank)
      if (slot(meeting, rank).stamp.load(std::memory_order_seq_cst) == (kLeft | (meeting + 1))) return rank;
    return -1;
  }
  // Whether it may never be complete: `judge` knows.
  bool is_doubtful(std::uint64_t meeting) {
    return has_failed.load(std::memory_order_seq_cst) || find_left(meeting) >= 0;
  }

  void enter(std::span<const int> ranks, std::string_view operation);
  void leave(std::span<const int> ranks) {
    for (const int rank : ranks)
      own[static_cast<std::size_t>(rank)].busy.store(false, std::memory_order_release);
  }
  void arrive(std::uint64_t meeting, int rank, const Arrival& arrival);
  void await_all(std::uint64_t meeting, std::span<const int> ranks, std::string_view operation,
                 std::chrono::milliseconds timeout);
  bool messages_agree(std::uint64_t meeting, const ShortMessage& own_message);
  void run_check(std::uint64_t meeting, const Check& check) noexcept;
  void fail(Failure kind, int rank, std::string text);
  void time_out(std::uint64_t meeting, std::string_view operation, std::chrono::milliseconds timeout);
  Judgement judge(std::uint64_t meeting, std::span<const int> ranks, std::string_view operation);
  [[noreturn]] void throw_failure(std::uint64_t meeting, std::span<const int> ranks,
                                  std::string_view operation);

  const std::vector<std::string> labels;
  const std::string_view member;
  std::array<std::vector<Slot>, 2> slots;
  std::array<std::vector<const Arrival*>, 2> arrivals;
  std::vector<Own> own;

  // Index of the last meeting that rank 0's thread has checked, plus one; publishes `error`.
  alignas(64) std::atomic<std::uint64_t> verdict{0};
  // What the check of the last meeting threw. Written by rank 0's thread, when all have come to the next one
  // and therefore have read it: it is the only one to free it.
  std::exception_ptr error;

  // Whether `failure` is not none. Who sets it looks at the stamps afterwards, who stamps looks at it
  // afterwards: either the one sees that a meeting is complete, or the other that it must ask `judge`.
  alignas(64) std::atomic<bool> has_failed{false};
  std::uint64_t first = 0;                       // index of the first meeting since `reset`
  Process process = Process::none();             // of the last `reset`
  Mutex mutex{"a communicator"};                 // guards what follows
  std::atomic<Failure> failure = Failure::none;  // read without it, too
  int failed_rank = -1;
  std::string failure_text;
  std::optional<std::uint64_t> failed_meeting;  // this one and those after it will never be complete

  Parking parking;
};

Rendezvous::Rendezvous(std::vector<std::string> labels, std::string_view member)
    : impl_(std::make_unique<Impl>(std::move(labels), member)) {}
Rendezvous::~Rendezvous() = default;

int Rendezvous::num_ranks() const noexcept { return impl_->num_ranks(); }
const std::string& Rendezvous::label(int rank) const {
  return impl_->labels.at(static_cast<std::size_t>(rank));
}

Rendezvous::Turn::Turn(Rendezvous& rendezvous, std::span<const int> ranks, std::string_view operation)
    : impl_(*rendezvous.impl_), ranks_(ranks) {
  impl_.enter(ranks, operation);
}
Rendezvous::Turn::~Turn() { impl_.leave(ranks_); }

bool Rendezvous::meet(const Turn& turn, std::span<const Arrival> arrivals, const Check& check,
                      std::chrono::milliseconds timeout) {
  const std::span<const int> ranks = turn.ranks_;
  assert(!ranks.empty() && ranks.size() == arrivals.size());
  const std::string_view operation = arrivals.front().operation;
  const std::uint64_t meeting =
      impl_->own[static_cast<std::size_t>(ranks.front())].next.load(std::memory_order_relaxed);
  LOCKSTEP_EXPECTS(!impl_->process.is_forked(), ContextError, operation,
                   ": this process is a fork of the one that the ", impl_->member,
                   "s run in, and has none of the others. ", "End it by _exit or exec, without calls that ",
                   impl_->member, "s make together.");
  // Nothing that the rank brings now may be looked at any more.
  if (impl_->has_failed.load(std::memory_order_seq_cst)) impl_->judge(meeting, ranks, operation);

  for (std::size_t i = 0; i < ranks.size(); ++i) impl_->arrive(meeting, ranks[i], arrivals[i]);
  impl_->await_all(meeting, ranks, operation, timeout);
  for (const int rank : ranks)
    impl_->own[static_cast<std::size_t>(rank)].next.store(meeting + 1, std::memory_order_relaxed);

  if (impl_->messages_agree(meeting, arrivals.front().message)) return true;
  if (std::ranges::find(ranks, 0) != ranks.end()) {
    impl_->run_check(meeting, check);
    impl_->verdict.store(meeting + 1, std::memory_order_seq_cst);
    impl_->parking.wake();
  } else {
    impl_->parking.wait(static_cast<std::uint64_t>(num_ranks()) / ranks.size(),
                        [&] { return impl_->verdict.load(std::memory_order_seq_cst) == meeting + 1; });
  }
  if (impl_->error) std::rethrow_exception(impl_->error);
  return false;
}

const Arrival& Rendezvous::arrival(int rank, int own) const {
  const std::uint64_t next = impl_->own[static_cast<std::size_t>(own)].next.load(std::memory_order_relaxed);
  return impl_->slot(next - 1, rank).arrival;
}
const std::byte* Rendezvous::message(int rank, int own) const {
  const std::uint64_t next = impl_->own[static_cast<std::size_t>(own)].next.load(std::memory_order_relaxed);
  return impl_->slot(next - 1, rank).bytes;
}

void Rendezvous::leave(int rank) {
  const std::uint64_t next = impl_->own[static_cast<std::size_t>(rank)].next.load(std::memory_order_relaxed);
  impl_->slot(next, rank).stamp.store(Impl::kLeft | (next + 1), std::memory_order_seq_cst);
  impl_->parking.wake();
}
void Rendezvous::fail(int rank) { impl_->fail(Impl::Failure::failed, rank, {}); }

void Rendezvous::abort(const std::string& cause) noexcept {
  try {
    impl_->fail(Impl::Failure::aborted, -1, cause);
  } catch (...) {  // no memory for a copy of the cause
    impl_->fail(Impl::Failure::aborted, -1, {});
  }
}

bool Rendezvous::is_aborted() const noexcept { return impl_->failure == Impl::Failure::aborted; }

bool Rendezvous::has_released() const noexcept { return impl_->failure == Impl::Failure::failed; }

void Rendezvous::reset() {
  impl_->process = Process();
  // Beyond whatever is stamped: no rank has gone further than the one after rank 0's next.
  impl_->first = impl_->own.front().next.load(std::memory_order_relaxed) + 3;
  for (Impl::Own& own : impl_->own) {
    own.next.store(impl_->first, std::memory_order_relaxed);
    own.told = false;
  }
  if (impl_->error) impl_->error = nullptr;
  if (!impl_->has_failed.load(std::memory_order_seq_cst)) return;
  std::lock_guard lock(impl_->mutex);
  if (impl_->failure != Impl::Failure::aborted) {
    impl_->failure = Impl::Failure::none;
    impl_->has_failed.store(false, std::memory_order_seq_cst);
  }
  impl_->failed_meeting.reset();
}

void Rendezvous::Impl::enter(std::span<const int> ranks, std::string_view operation) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Own& mine = own[static_cast<std::size_t>(ranks[i])];
    if (!mine.busy.exchange(true, std::memory_order_acq_rel)) continue;
    leave(ranks.first(i));
    raise<ContextError>({__FILE__, __LINE__, __func__},
                        concat(operation, ", call ", call(mine.next.load(std::memory_order_relaxed)),
                               ": two threads drive ", label(ranks[i]), " at once. Drive each ", member,
                               " from one thread, or all of them from one."),
                        about(ranks[i], operation));
  }
}

void Rendezvous::Impl::arrive(std::uint64_t meeting, int rank, const Arrival& arrival) {
  Slot& mine = slot(meeting, rank);
  const ShortMessage& message = arrival.message;
  mine.arrival = arrival;
  mine.key = message.key;
  if (message.key != 0) {
    mine.read = static_cast<const std::byte*>(message.read);
    mine.written = static_cast<const std::byte*>(message.written);
    assert(message.bytes.size() <= ShortMessage::kMaxBytes);
    std::memcpy(mine.bytes, message.bytes.data(), message.bytes.size());
    demote({mine.bytes, message.bytes.size()});
  }
  mine.stamp.store(meeting + 1, std::memory_order_release);
}

void Rendezvous::Impl::await_all(std::uint64_t meeting, std::span<const int> ranks,
                                 std::string_view operation, std::chrono::milliseconds timeout) {
  int next = 0;  // all before it are there
  const auto all_are_there = [&] {
    while (next < num_ranks() && has_arrived(meeting, next)) ++next;
    return next == num_ranks();
  };
  // As if every thread drove as many ranks as this one.
  const std::uint64_t num_threads = labels.size() / ranks.size();
  for (;;) {
    const bool over = parking.wait(
        num_threads, [&] { return all_are_there() || is_doubtful(meeting); }, timeout);
    // Not before waiting: the fence takes as long as the stamp needs to get out, and so does the wait. It
    // does for waking others too: the last rank to arrive finds all there, and does not sleep.
    full_fence();
    if (!over) time_out(meeting, operation, timeout);
    if (!is_doubtful(meeting)) {
      if (all_are_there()) break;
    } else if (judge(meeting, ranks, operation) == Judgement::complete) {
      break;
    }
  }
  parking.wake();
}

bool Rendezvous::Impl::messages_agree(std::uint64_t meeting, const ShortMessage& own_message) {
  if (own_message.key == 0) return false;
  const std::vector<Slot>& all = slots[meeting & 1];
  for (const Slot& each : all)
    if (each.key != own_message.key) return false;
  const std::size_t size = own_message.bytes.size();
  const auto overlap = [&](const std::byte* a, const std::byte* b) { return a < b + size && b < a + size; };
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b < all.size(); ++b)
      if (a != b && (overlap(all[a].written, all[b].written) || overlap(all[a].written, all[b].read)))
        return false;
  return true;
}

void Rendezvous::Impl::run_check(std::uint64_t meeting, const Check& check) noexcept {
  if (error) error = nullptr;
  try {
    const std::vector<const Arrival*>& all = arrivals[meeting & 1];
    const auto other = std::ranges::find_if(
        all, [&](const Arrival* arrival) { return arrival->operation != all.front()->operation; });
    if (other != all.end()) {
      const int rank = static_cast<int>(other - all.begin());
      raise<CollectiveMismatch>({__FILE__, __LINE__, __func__},
                                concat((*other)->operation, ", call ", call(meeting), ": ", label(rank),
                                       " calls it where ", labels.front(), " calls ", all.front()->operation,
                                       ". Make the same calls in the same order on every ", member, "."),
                                about(rank, (*other)->operation));
    }
    if (check) check(all);
  } catch (...) {
    error = std::current_exception();
  }
}

void Rendezvous::Impl::fail(Failure kind, int rank, std::string text) {
  if (!mutex.lock_unless_lost()) return;  // there is nobody to tell
  {
    const std::lock_guard lock(mutex, std::adopt_lock);
    // The first cause is the one to tell, but what a rank threw is more than that one has left, and an abort
    // is for ever.
    const bool is_first = failure == Failure::none || failure == Failure::left;
    if (!is_first && kind != Failure::aborted) return;
    if (failure == Failure::aborted) return;
    failure = kind;
    failed_rank = rank;
    failure_text = std::move(text);
    has_failed.store(true, std::memory_order_seq_cst);
  }
  parking.wake();
}

void Rendezvous::Impl::time_out(std::uint64_t meeting, std::string_view operation,
                                std::chrono::milliseconds timeout) {
  {
    std::lock_guard lock(mutex);
    if (failure != Failure::none || find_left(meeting) >= 0) return;
    has_failed.store(true, std::memory_order_seq_cst);  // and no rank can come from here on
    std::vector<std::string> absent, present;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      const bool is_there = has_arrived(meeting, rank);
      if (!is_there && absent.empty()) failed_rank = rank;
      (is_there ? present : absent).push_back(label(rank));
    }
    if (absent.empty()) {
      has_failed.store(false, std::memory_order_seq_cst);
      return;
    }
    failure = Failure::timed_out;
    failure_text = concat(operation, ", call ", call(meeting), ": not all ", member, "s arrived within ",
                          timeout.count(), " ms. Present: ", join(present), "; missing: ", join(absent),
                          ". Make the same calls on every ", member, ", or allow more time.");
    failed_meeting = meeting;
  }
  parking.wake();
}

// For who has seen that `has_failed`. The first who finds a rank missing decides for all.
Rendezvous::Impl::Judgement Rendezvous::Impl::judge(std::uint64_t meeting, std::span<const int> ranks,
                                                    std::string_view operation) {
  std::lock_guard lock(mutex);
  if (failure == Failure::none) {
    const int rank = find_left(meeting);
    if (rank < 0) return Judgement::open;
    failure = Failure::left;
    failed_rank = rank;
    has_failed.store(true, std::memory_order_seq_cst);
  }
  if (!failed_meeting || meeting < *failed_meeting) {
    int rank = 0;
    while (rank < num_ranks() && has_arrived(meeting, rank)) ++rank;
    if (rank == num_ranks()) return Judgement::complete;
    failed_meeting = meeting;
  }
  throw_failure(meeting, ranks, operation);
}

void Rendezvous::Impl::throw_failure(std::uint64_t meeting, std::span<const int> ranks,
                                     std::string_view operation) {
  bool again = true;
  for (const int rank : ranks) again &= std::exchange(own[static_cast<std::size_t>(rank)].told, true);
  const SourceLocation location{__FILE__, __LINE__, __func__};
  switch (failure) {
    case Failure::failed: throw Released{};
    case Failure::timed_out:
      if (again)
        raise<CollectiveAborted>(location,
                                 concat(operation, ": the group has failed: ", failure_text,
                                        " Make a new Communicator, or end the run: a strategy's next one "
                                        "starts afresh."),
                                 about(failed_rank, operation));
      raise<CollectiveTimeout>(location, failure_text, about(failed_rank, operation));
    case Failure::aborted:
      raise<CollectiveAborted>(
          location,
          concat(operation, ": the group was aborted: ", failure_text, failure_text.ends_with('.') ? "" : ".",
                 " Make a new Communicator, or strategy."),
          ranks.size() == 1 ? about(ranks.front(), operation)
                            : ErrorContext{.operation = std::string(operation)});
    case Failure::left:
    case Failure::none: break;
  }
  raise<MissingRank>(location,
                     concat(operation, ", call ", call(meeting), ": ", label(failed_rank),
                            " has returned without it. Make the same calls on every ", member, "."),
                     about(failed_rank, operation));
}

}  // namespace lockstep::detail

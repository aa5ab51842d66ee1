#include "collectives/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <lockstep/detail/concat.hpp>
#include <lockstep/error.hpp>

#include "detail/barrier.hpp"

namespace lockstep::detail {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : ", ") + part;
  return joined.empty() ? "none" : joined;
}

}  // namespace

struct Rendezvous::Impl {
  // What a rank brought to the meetings with an even and an odd index: a rank can be one meeting ahead of
  // another, never two.
  struct alignas(64) Slot {
    Arrival arrival;
    // Index of the meeting it came to, plus one; written before the rank arrives at the barrier, read by
    // ranks that give up.
    std::atomic<std::uint64_t> stamp{0};
  };
  enum class Failure : std::uint8_t { none, left, failed, timed_out, aborted };

  explicit Impl(std::vector<std::string> names)
      : labels(std::move(names)), barrier(static_cast<int>(labels.size())) {
    for (int parity = 0; parity < 2; ++parity) {
      slots[parity] = std::vector<Slot>(labels.size());
      for (const Slot& slot : slots[parity]) arrivals[parity].push_back(&slot.arrival);
    }
  }

  Slot& slot(std::uint64_t generation, int rank) {
    return slots[generation & 1][static_cast<std::size_t>(rank)];
  }
  std::vector<int> missing(std::uint64_t generation);
  void run_check(std::uint64_t generation, const Check& check) noexcept;
  void fail(Failure kind, int rank, std::string text);
  void time_out(const Barrier::Ticket& ticket, std::string_view operation, std::chrono::milliseconds timeout);
  /// @param again  the rank has been told of the failure before.
  [[noreturn]] void throw_failure(std::uint64_t generation, std::string_view operation, bool again = false);

  const std::vector<std::string> labels;
  Barrier barrier;
  std::array<std::vector<Slot>, 2> slots;
  std::array<std::vector<const Arrival*>, 2> arrivals;
  // What the check of the last meeting threw. Written by the last to arrive, whom the barrier orders after
  // all readers of the meeting before, and which therefore is the only one to free it.
  std::exception_ptr error;

  std::mutex mutex;  // guards what follows
  Failure failure = Failure::none;
  int failed_rank = -1;
  std::string failure_text;
};

Rendezvous::Rendezvous(std::vector<std::string> labels) : impl_(std::make_unique<Impl>(std::move(labels))) {}
Rendezvous::~Rendezvous() = default;

int Rendezvous::num_ranks() const noexcept { return static_cast<int>(impl_->labels.size()); }
const std::string& Rendezvous::label(int rank) const {
  return impl_->labels.at(static_cast<std::size_t>(rank));
}

void Rendezvous::meet(std::span<const int> ranks, std::span<const Arrival> arrivals, const Check& check,
                      std::chrono::milliseconds timeout) {
  assert(!ranks.empty() && ranks.size() == arrivals.size());
  const std::string_view operation = arrivals.front().operation;
  const std::uint64_t generation = impl_->barrier.generation();
  if (impl_->barrier.has_failed()) {
    bool again = true;
    for (const int rank : ranks)
      again &= impl_->slot(generation, rank).stamp.exchange(generation + 1, std::memory_order_acq_rel) ==
               generation + 1;
    impl_->throw_failure(generation, operation, again);
  }
  Barrier::Deadline deadline;
  constexpr std::chrono::hours kForEver{24 * 365 * 100};  // a clock cannot count much further
  if (timeout.count() > 0 && timeout < kForEver) deadline = std::chrono::steady_clock::now() + timeout;

  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Impl::Slot& slot = impl_->slot(generation, ranks[i]);
    if (slot.stamp.exchange(generation + 1, std::memory_order_acq_rel) == generation + 1) {
      for (const int rank : ranks.first(i))
        impl_->slot(generation, rank).stamp.store(0, std::memory_order_release);
      LOCKSTEP_EXPECTS(false, ContextError, operation, ", call ", generation, ": two threads drive ",
                       label(ranks[i]),
                       " at once. Drive each replica from one thread, or all of them from one.");
    }
    slot.arrival = arrivals[i];
  }
  const Barrier::Ticket ticket = impl_->barrier.arrive(static_cast<int>(ranks.size()));
  bool passed = false;
  if (ticket.is_last) {
    impl_->run_check(generation, check);
    passed = impl_->barrier.release(ticket);
  } else if (!ticket.failed) {
    Barrier::Outcome outcome = impl_->barrier.wait(ticket, deadline);
    while (outcome == Barrier::Outcome::timed_out) {
      impl_->time_out(ticket, operation, timeout);
      outcome = impl_->barrier.wait(ticket, deadline);
    }
    passed = outcome == Barrier::Outcome::passed;
  }
  if (!passed) impl_->throw_failure(generation, operation);
  if (impl_->error) std::rethrow_exception(impl_->error);
}

const Arrival& Rendezvous::arrival(int rank) const {
  return impl_->slot(impl_->barrier.generation() - 1, rank).arrival;
}

void Rendezvous::leave(int rank) { impl_->fail(Impl::Failure::left, rank, {}); }
void Rendezvous::fail(int rank) { impl_->fail(Impl::Failure::failed, rank, {}); }

void Rendezvous::abort(const std::string& cause) noexcept {
  try {
    impl_->fail(Impl::Failure::aborted, -1, cause);
  } catch (...) {  // no memory for a copy of the cause
    impl_->fail(Impl::Failure::aborted, -1, {});
  }
}

bool Rendezvous::is_aborted() const noexcept {
  std::lock_guard lock(impl_->mutex);
  return impl_->failure == Impl::Failure::aborted;
}

void Rendezvous::reset() {
  std::lock_guard lock(impl_->mutex);
  const bool aborted = impl_->failure == Impl::Failure::aborted;
  if (!aborted) impl_->failure = Impl::Failure::none;
  for (auto& slots : impl_->slots) {
    for (Impl::Slot& slot : slots) slot.stamp.store(0, std::memory_order_relaxed);
  }
  impl_->error = nullptr;
  impl_->barrier.reset(aborted);
}

std::vector<int> Rendezvous::Impl::missing(std::uint64_t generation) {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(labels.size()); ++rank) {
    if (slot(generation, rank).stamp.load(std::memory_order_acquire) != generation + 1) ranks.push_back(rank);
  }
  return ranks;
}

void Rendezvous::Impl::run_check(std::uint64_t generation, const Check& check) noexcept {
  if (error) error = nullptr;
  try {
    const std::vector<const Arrival*>& all = arrivals[generation & 1];
    const auto other = std::ranges::find_if(
        all, [&](const Arrival* arrival) { return arrival->operation != all.front()->operation; });
    if (other != all.end()) {
      const std::string& label = labels[static_cast<std::size_t>(other - all.begin())];
      LOCKSTEP_EXPECTS(false, CollectiveMismatch, "call ", generation, ": ", label, " calls ",
                       (*other)->operation, " where ", labels.front(), " calls ", all.front()->operation,
                       ". Make the same calls in the same order on every replica.");
    }
    if (check) check(all);
  } catch (...) {
    error = std::current_exception();
  }
}

void Rendezvous::Impl::fail(Failure kind, int rank, std::string text) {
  {
    std::lock_guard lock(mutex);
    // The first cause is the one to tell, but what a rank threw is more than that one has left, and an abort
    // is for ever.
    const bool is_first = failure == Failure::none || (failure == Failure::left && kind != Failure::left);
    if (!is_first && kind != Failure::aborted) return;
    if (failure == Failure::aborted) return;
    failure = kind;
    failed_rank = rank;
    failure_text = std::move(text);
  }
  barrier.fail();
}

void Rendezvous::Impl::time_out(const Barrier::Ticket& ticket, std::string_view operation,
                                std::chrono::milliseconds timeout) {
  std::lock_guard lock(mutex);
  std::vector<std::string> absent, present;
  const std::vector<int> ranks = missing(ticket.generation);
  for (int rank = 0; rank < static_cast<int>(labels.size()); ++rank) {
    (std::ranges::find(ranks, rank) == ranks.end() ? present : absent)
        .push_back(labels[static_cast<std::size_t>(rank)]);
  }
  if (ranks.empty()) {  // the last one is just coming
    std::this_thread::yield();
    return;
  }
  std::string text = concat(operation, ", call ", ticket.generation, ": not all replicas arrived within ",
                            timeout.count(), " ms. Present: ", join(present), "; missing: ", join(absent),
                            ". Make the same calls on every replica, or allow more time.");
  // Under the lock, so that whoever sees the failure finds its text.
  if (!barrier.fail_if_incomplete(ticket)) return;
  if (failure != Failure::none) return;
  failure = Failure::timed_out;
  failure_text = std::move(text);
}

void Rendezvous::Impl::throw_failure(std::uint64_t generation, std::string_view operation, bool again) {
  std::lock_guard lock(mutex);
  switch (failure) {
    case Failure::failed: throw Released{};
    case Failure::timed_out:
      if (again)
        throw CollectiveAborted(concat(operation, ": the group has failed: ", failure_text,
                                       " Make a new Communicator, or end the run: a strategy's next one "
                                       "starts afresh."),
                                {.operation = std::string(operation)});
      throw CollectiveTimeout(failure_text, {.operation = std::string(operation)});
    case Failure::aborted:
      throw CollectiveAborted(
          concat(operation, ": the group was aborted: ", failure_text, failure_text.ends_with('.') ? "" : ".",
                 " Make a new Communicator, or strategy."),
          {.operation = std::string(operation)});
    case Failure::left:
    case Failure::none: break;
  }
  const std::string& label = labels[static_cast<std::size_t>(failed_rank)];
  raise<MissingRank>({__FILE__, __LINE__, __func__},
                     concat(operation, ", call ", generation, ": ", label,
                            " has returned without it. Make the same calls on every replica."),
                     {.operation = std::string(operation), .replica = failed_rank});
}

}  // namespace lockstep::detail

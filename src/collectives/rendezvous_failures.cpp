#include <mutex>

#include <lockstep/error.hpp>

#include "collectives/rendezvous_impl.hpp"
#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ") {
  std::string joined;
  for (const std::string& part : parts) joined += concat(joined.empty() ? "" : separator, part);
  return joined.empty() ? "none" : joined;
}

// "CPU:2" of "replica 1 (CPU:2, CPU:3)".
std::string first_device(const std::string& label) {
  const std::size_t begin = label.rfind('(') + 1;
  return label.substr(begin, label.find_first_of(",)", begin) - begin);
}

}  // namespace

std::string Rendezvous::Impl::difference() const {
  const std::string text = calls.difference(first).text;
  return text.empty() ? text : concat(" The first recorded call that differs: ", text, ".");
}

ErrorContext Rendezvous::Impl::about(int rank, std::string_view operation) const {
  return {.operation = std::string(operation), .replica = rank, .device = first_device(label(rank))};
}

void Rendezvous::leave(int rank) {
  const std::uint64_t next =
      impl_->rank_states[static_cast<std::size_t>(rank)].next.load(std::memory_order_relaxed);
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

void Rendezvous::throw_aborted(const RankLock& rank_lock, std::string_view operation) {
  const std::span<const int> ranks = rank_lock.ranks_;
  const std::uint64_t next =
      impl_->rank_states[static_cast<std::size_t>(ranks.front())].next.load(std::memory_order_relaxed);
  const std::lock_guard lock(impl_->mutex);
  impl_->throw_failure(next, ranks, operation);
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
      (is_there ? present : absent)
          .push_back(is_there ? label(rank) : concat(label(rank), ", ", calls.last_call(rank)));
    }
    if (absent.empty()) {
      has_failed.store(false, std::memory_order_seq_cst);
      return;
    }
    failure = Failure::timed_out;
    failure_text =
        concat(operation, ", call ", call(meeting), ": not all ", member, "s arrived within ",
               timeout.count(), " ms. Present: ", join(present), "; missing: ", join(absent, "; "), ".",
               difference(), " Make the same calls on every ", member, ", or allow more time.");
    failed_meeting = meeting;
  }
  parking.wake();
}

// For a thread that has seen `has_failed`. The first that finds a rank missing decides for all.
Rendezvous::Impl::State Rendezvous::Impl::decide(std::uint64_t meeting, std::span<const int> ranks,
                                                 std::string_view operation) {
  std::lock_guard lock(mutex);
  if (failure == Failure::none) {
    const int rank = find_left(meeting);
    if (rank < 0) return State::pending;
    failure = Failure::left;
    failed_rank = rank;
    has_failed.store(true, std::memory_order_seq_cst);
  }
  if (!failed_meeting || meeting < *failed_meeting) {
    int rank = 0;
    while (rank < num_ranks() && has_arrived(meeting, rank)) ++rank;
    if (rank == num_ranks()) return State::complete;
    failed_meeting = meeting;
  }
  throw_failure(meeting, ranks, operation);
}

void Rendezvous::Impl::throw_failure(std::uint64_t meeting, std::span<const int> ranks,
                                     std::string_view operation) {
  end_calls(ranks, /*have_thrown=*/true);
  bool again = true;
  for (const int rank : ranks)
    again &= std::exchange(rank_states[static_cast<std::size_t>(rank)].has_thrown, true);
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
  raise<MissingRank>(
      location,
      concat(operation, ", call ", call(meeting), ": ", label(failed_rank), " has returned without it.",
             difference(), " Make the same calls on every ", member, "."),
      about(failed_rank, operation));
}

}  // namespace lockstep::detail

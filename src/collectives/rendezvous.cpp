#include "collectives/rendezvous.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/error.hpp>

#include "collectives/rendezvous_impl.hpp"
#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "detail/parking.hpp"
#include "detail/process.hpp"
#include "trace/span.hpp"

namespace lockstep::detail {

Rendezvous::Rendezvous(std::vector<std::string> labels, std::string_view member)
    : impl_(std::make_unique<Impl>(std::move(labels), member)) {}
Rendezvous::~Rendezvous() = default;

int Rendezvous::num_ranks() const noexcept { return impl_->num_ranks(); }
const std::string& Rendezvous::label(int rank) const {
  return impl_->labels.at(static_cast<std::size_t>(rank));
}

CallGroup& Rendezvous::calls() const noexcept { return impl_->calls; }
std::exception_ptr Rendezvous::described(std::exception_ptr error) const noexcept {
  return impl_->described(std::move(error));
}
std::uint64_t Rendezvous::next_call_id(int rank) const noexcept {
  return impl_->calls.number() << 40 |
         impl_->rank_states[static_cast<std::size_t>(rank)].next.load(std::memory_order_relaxed);
}
std::uint64_t Rendezvous::last_meeting(int rank) const noexcept {
  return impl_->rank_states[static_cast<std::size_t>(rank)].next.load(std::memory_order_relaxed) - 1;
}

Rendezvous::RankLock::RankLock(Rendezvous& rendezvous, std::span<const int> ranks, std::string_view operation)
    : impl_(*rendezvous.impl_), ranks_(ranks) {
  impl_.enter(ranks, operation);
}
Rendezvous::RankLock::~RankLock() { impl_.leave(ranks_); }
void Rendezvous::RankLock::set_failed() const noexcept { impl_.end_calls(ranks_, /*have_thrown=*/true); }

bool Rendezvous::meet(const RankLock& rank_lock, std::span<const Arrival> arrivals, const Check& check,
                      std::chrono::milliseconds timeout) {
  const std::span<const int> ranks = rank_lock.ranks_;
  assert(!ranks.empty() && ranks.size() == arrivals.size());
  const std::string_view operation = arrivals.front().operation;
  const std::uint64_t meeting =
      impl_->rank_states[static_cast<std::size_t>(ranks.front())].next.load(std::memory_order_relaxed);
  LOCKSTEP_EXPECTS(!impl_->process.is_forked(), ContextError, operation,
                   ": this process is a fork of the one that the ", impl_->member,
                   "s run in, and has none of the others. ", "End it by _exit or exec, without calls that ",
                   impl_->member, "s make together.");
  // After a failure this rank throws here: it does not publish an arrival that others might still read.
  if (impl_->has_failed.load(std::memory_order_seq_cst)) impl_->decide(meeting, ranks, operation);

  for (std::size_t i = 0; i < ranks.size(); ++i) impl_->arrive(meeting, ranks[i], arrivals[i]);
  impl_->await_all(meeting, ranks, operation, timeout);
  for (const int rank : ranks)
    impl_->rank_states[static_cast<std::size_t>(rank)].next.store(meeting + 1, std::memory_order_relaxed);
  const auto start_calls = [&] {
    for (const int rank : ranks) impl_->calls[rank].set_state(CallState::started);
  };

  if (agree(arrivals.front().fingerprint, num_ranks(),
            [all = impl_->slots[meeting & 1].data()](int rank) -> const Mailbox& {
              return all[rank].mailbox;
            })) {
    start_calls();
    return true;
  }
  if (std::ranges::find(ranks, 0) != ranks.end()) {
    impl_->run_check(meeting, check);
    impl_->num_checked.store(meeting + 1, std::memory_order_seq_cst);
    impl_->parking.wake();
  } else {
    impl_->parking.wait(static_cast<std::uint64_t>(num_ranks()) / ranks.size(),
                        [&] { return impl_->num_checked.load(std::memory_order_seq_cst) == meeting + 1; });
  }
  if (impl_->error) {
    rank_lock.set_failed();
    std::rethrow_exception(impl_->error);
  }
  start_calls();  // not before the check, in which the ranks wait for those of other processes
  return false;
}

const Arrival& Rendezvous::arrival(int rank, int own) const {
  const std::uint64_t next =
      impl_->rank_states[static_cast<std::size_t>(own)].next.load(std::memory_order_relaxed);
  return impl_->slot(next - 1, rank).arrival;
}
const Mailbox& Rendezvous::mailbox(int rank, int own) const {
  const std::uint64_t next =
      impl_->rank_states[static_cast<std::size_t>(own)].next.load(std::memory_order_relaxed);
  return impl_->slot(next - 1, rank).mailbox;
}

void Rendezvous::reset(std::uint64_t least) {
  impl_->process = Process();
  // An index beyond every stamp: no rank has gone further than the meeting after rank 0's next.
  impl_->first = std::max(impl_->rank_states.front().next.load(std::memory_order_relaxed) + 3, least);
  for (Impl::RankState& state : impl_->rank_states) {
    state.next.store(impl_->first, std::memory_order_relaxed);
    state.has_thrown = false;
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
    RankState& state = rank_states[static_cast<std::size_t>(ranks[i])];
    if (!state.busy.exchange(true, std::memory_order_acq_rel)) continue;
    leave(ranks.first(i));
    raise<ContextError>({__FILE__, __LINE__, __func__},
                        concat(operation, ", call ", call(state.next.load(std::memory_order_relaxed)),
                               ": two threads drive ", label(ranks[i]), " at once. Drive each ", member,
                               " from one thread, or all of them from one."),
                        about(ranks[i], operation));
  }
}

void Rendezvous::Impl::arrive(std::uint64_t meeting, int rank, const Arrival& arrival) {
  calls[rank].begin(meeting, call(meeting), arrival.operation, arrival.tensors, arrival.label,
                    arrival.enqueues);
  Slot& slot_of_rank = slot(meeting, rank);
  slot_of_rank.arrival = arrival;
  slot_of_rank.mailbox.put(arrival.fingerprint, arrival.copies_input);
  slot_of_rank.stamp.store(meeting + 1, std::memory_order_release);
}

void Rendezvous::Impl::await_all(std::uint64_t meeting, std::span<const int> ranks,
                                 std::string_view operation, std::chrono::milliseconds timeout) {
  const SpanWait waits;
  int next = 0;  // ranks before it have arrived
  const auto all_have_arrived = [&] {
    while (next < num_ranks() && has_arrived(meeting, next)) ++next;
    return next == num_ranks();
  };
  // An estimate: every thread drives as many ranks as this one.
  const std::uint64_t num_threads = labels.size() / ranks.size();
  for (;;) {
    const bool has_ended = parking.wait(
        num_threads, [&] { return all_have_arrived() || may_fail(meeting); }, timeout);
    // The fence comes after the wait: both take the time that the stamp needs to reach the others. The fence
    // also orders the stamp before waking them: the last rank to arrive finds that all have, and wakes them.
    full_fence();
    if (!has_ended) time_out(meeting, operation, timeout);
    if (!may_fail(meeting)) {
      if (all_have_arrived()) break;
    } else if (decide(meeting, ranks, operation) == State::complete) {
      break;
    }
  }
  parking.wake();
}

void Rendezvous::Impl::run_check(std::uint64_t meeting, const Check& check) noexcept {
  if (error) error = nullptr;
  try {
    const std::vector<const Arrival*>& all = arrivals[meeting & 1];
    const auto other = std::ranges::find_if(
        all, [&](const Arrival* arrival) { return arrival->operation != all.front()->operation; });
    if (other != all.end()) {
      const int rank = static_cast<int>(other - all.begin());
      raise<DescribedMismatch>(
          {__FILE__, __LINE__, __func__},
          concat((*other)->operation, ", call ", call(meeting), ": ", label(rank), " calls it where ",
                 labels.front(), " calls ", all.front()->operation, ".", difference(),
                 " Make the same calls in the same order on every ", member, "."),
          about(rank, (*other)->operation));
    }
    if (check) check(all);
  } catch (...) {
    error = described(std::current_exception());
  }
}

}  // namespace lockstep::detail

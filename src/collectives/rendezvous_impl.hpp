#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/detail/mutex.hpp>

#include "collectives/rendezvous.hpp"
#include "detail/parking.hpp"
#include "detail/process.hpp"
#include "trace/call_group.hpp"

namespace lockstep::detail {

/// The state of a rendezvous: rendezvous.cpp has its meetings, rendezvous_failures.cpp those that fail.
struct Rendezvous::Impl {
  // A rank's arrival at the last meeting with an even index, or with an odd one: a rank can be one meeting
  // ahead of another, never two. Stamp and fingerprint, with a message of up to 32 bytes, are one cache line
  // that the others read.
  struct alignas(2 * 64) Slot {  // lines are fetched in pairs
    // Index of the meeting it came to, plus one; with kLeft: of the one before which it left.
    std::atomic<std::uint64_t> stamp{0};
    Mailbox mailbox;
    Arrival arrival;
  };
  // Only the thread that drives the rank touches it, but for `busy`.
  struct alignas(64) RankState {
    std::atomic<bool> busy{false};
    std::atomic<std::uint64_t> next{0};  // index of its next meeting
    bool has_thrown = false;             // the failure, on this rank
  };
  static constexpr std::uint64_t kLeft = std::uint64_t{1} << 63;
  enum class Failure : std::uint8_t { none, left, failed, timed_out, aborted };
  /// Of a meeting that may fail.
  enum class State : std::uint8_t { complete, pending };

  Impl(std::vector<std::string> names, std::string_view member_)
      : calls(std::move(names), member_),
        labels(calls.labels()),
        member(member_),
        slots{std::vector<Slot>(labels.size()), std::vector<Slot>(labels.size())},
        rank_states(labels.size()) {
    for (int parity = 0; parity < 2; ++parity)
      for (const Slot& slot : slots[parity]) arrivals[parity].push_back(&slot.arrival);
  }

  Slot& slot(std::uint64_t meeting, int rank) { return slots[meeting & 1][static_cast<std::size_t>(rank)]; }
  bool has_arrived(std::uint64_t meeting, int rank) {
    return slot(meeting, rank).stamp.load(std::memory_order_seq_cst) == meeting + 1;
  }
  int num_ranks() const { return static_cast<int>(labels.size()); }
  const std::string& label(int rank) const { return labels[static_cast<std::size_t>(rank)]; }
  // For an error about the rank.
  ErrorContext about(int rank, std::string_view operation) const;
  // The call's index since the last `reset`, for messages.
  std::uint64_t call(std::uint64_t meeting) const { return meeting - first; }
  // A rank that left instead of arriving; -1: none.
  int find_left(std::uint64_t meeting) {
    for (int rank = 0; rank < num_ranks(); ++rank)
      if (slot(meeting, rank).stamp.load(std::memory_order_seq_cst) == (kLeft | (meeting + 1))) return rank;
    return -1;
  }
  // Whether the meeting may never be complete: `decide` finds out.
  bool may_fail(std::uint64_t meeting) {
    return has_failed.load(std::memory_order_seq_cst) || find_left(meeting) >= 0;
  }

  void enter(std::span<const int> ranks, std::string_view operation);
  void leave(std::span<const int> ranks) {
    end_calls(ranks, /*have_thrown=*/false);
    for (const int rank : ranks)
      rank_states[static_cast<std::size_t>(rank)].busy.store(false, std::memory_order_release);
  }
  void arrive(std::uint64_t meeting, int rank, const Arrival& arrival);
  void await_all(std::uint64_t meeting, std::span<const int> ranks, std::string_view operation,
                 std::chrono::milliseconds timeout);
  void run_check(std::uint64_t meeting, const Check& check) noexcept;
  void fail(Failure kind, int rank, std::string text);
  void time_out(std::uint64_t meeting, std::string_view operation, std::chrono::milliseconds timeout);
  State decide(std::uint64_t meeting, std::span<const int> ranks, std::string_view operation);
  void end_calls(std::span<const int> ranks, bool have_thrown) noexcept {
    for (const int rank : ranks) calls[rank].end(have_thrown);
  }
  /// A sentence for messages: the first recorded call that differs, if there is one.
  std::string difference() const;
  std::exception_ptr described(std::exception_ptr thrown) const noexcept {
    return with_difference(std::move(thrown), [this] { return calls.difference(first); });
  }
  [[noreturn]] void throw_failure(std::uint64_t meeting, std::span<const int> ranks,
                                  std::string_view operation);

  CallGroup calls;
  const std::vector<std::string>& labels;
  const std::string_view member;
  std::array<std::vector<Slot>, 2> slots;
  std::array<std::vector<const Arrival*>, 2> arrivals;
  std::vector<RankState> rank_states;

  // Index of the last meeting that rank 0's thread has checked, plus one; publishes `error`.
  alignas(64) std::atomic<std::uint64_t> num_checked{0};
  // The error of the last meeting's check. Rank 0's thread writes it when all have arrived at the next
  // meeting and therefore have read it, so only that thread frees it.
  std::exception_ptr error;

  // Whether `failure` is not none. The flag and the stamps are a store-load pair (Dekker): the thread that
  // sets the flag reads the stamps afterwards, a thread that stamps reads the flag afterwards. Either the
  // first sees that the meeting is complete, or the second that it must call `decide`.
  alignas(64) std::atomic<bool> has_failed{false};
  std::uint64_t first = 0;                       // index of the first meeting since `reset`
  Process process = Process::none();             // of the last `reset`
  Mutex mutex{"a communicator"};                 // guards the rest
  std::atomic<Failure> failure = Failure::none;  // also read without the mutex
  int failed_rank = -1;
  std::string failure_text;
  std::optional<std::uint64_t> failed_meeting;  // it and later ones will never be complete

  Parking parking;
};

}  // namespace lockstep::detail

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

namespace lockstep::detail {

/// The state of a meeting place. rendezvous.cpp has what a meeting does, rendezvous_failures.cpp what happens
/// where one is not to be.
struct Rendezvous::Impl {
  // What a rank brought to the meetings with an even and an odd index: a rank can be one meeting ahead of
  // another, never two. Stamp and fingerprint, with a message of up to 32 bytes, are one cache line that the
  // others read.
  struct alignas(2 * 64) Slot {  // lines are fetched in pairs
    // Index of the meeting it came to, plus one; with kLeft: of the one before which it left.
    std::atomic<std::uint64_t> stamp{0};
    Mailbox mailbox;
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
  ErrorContext about(int rank, std::string_view operation) const;
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

}  // namespace lockstep::detail

#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

/// What the ranks of communicators and strategies did last. Every rank's newest calls are recorded, always:
/// 63 of them, or as many as the environment variable LOCKSTEP_CALLS says when a communicator is made, at
/// most 65535; 0: none. This costs some 20 ns for each rank of a call, and 8 KiB for each rank.
namespace lockstep {

/// How far a call has come.
enum class CallState : std::uint8_t {
  waiting,    ///< For other ranks, which have not made the call.
  started,    ///< All ranks are there, and it is carried out, or enqueued.
  enqueued,   ///< On a device's stream; whether it has begun is only known of a call with a time limit.
  running,    ///< The device's stream has come to it.
  completed,  ///< It has returned, and its work is done.
  failed,     ///< It has thrown.
};
[[nodiscard]] std::string_view name(CallState state);

/// A call that a rank has made.
struct ReportedCall {
  std::uint64_t number = 0;  ///< Equal in the calls of a group's ranks that belong together, and increasing.
  std::uint64_t call = 0;    ///< Counted from 0 in each run, as in errors.
  std::string operation;     ///< "all_reduce(sum)"
  std::string operands;      ///< "[10] float32 and 2 more tensors"; empty: none.
  std::string label;         ///< CommunicationOptions::label, the last 32 bytes.
  std::string region;        ///< "train/backward", of trace::Region, the last 32 bytes.
  std::int64_t bytes = 0;    ///< Of all the rank's tensors.
  CallState state = CallState::waiting;
  std::chrono::nanoseconds age{};  ///< Since the call was made.

  /// "call 7, all_reduce(sum) of [10] float32, 'grad/3', in 'train', waiting for 2.50 s"
  [[nodiscard]] std::string to_string() const;
};

/// A rank's newest calls.
struct RankReport {
  int rank = 0;
  std::string label;                ///< "replica 1 (CPU:1)"
  bool is_known = true;             ///< False: it belongs to another worker, which has not answered.
  bool is_missing = false;          ///< Others wait for it.
  std::vector<ReportedCall> calls;  ///< Oldest first; of another worker's rank the newest one alone.
};
/// "replica 1 (CPU:1) (others wait for it): call 7, ..."
std::ostream& operator<<(std::ostream& out, const RankReport& rank);

/// The ranks that make their calls together.
struct GroupReport {
  std::string name;  ///< "group 3 of 4 replicas", or that of a strategy.
  std::string
      difference;  ///< The first call in which ranks differ, with what two of them called; empty: none.
  std::vector<RankReport> ranks;
};

/// What ranks did last, and who is waited for.
struct Report {
  std::vector<GroupReport> groups;

  /// A few lines: each rank's last call, and the first difference.
  [[nodiscard]] std::string to_string() const;
  /// All of it, as one JSON object: {"version": 1, "process": 1234, "groups": [{"name", "difference",
  /// "ranks":
  /// [{"rank", "label", "known", "missing", "calls": [{"number", "call", "operation", "operands", "label",
  /// "region", "bytes", "state", "age_ns"}]}]}]}.
  [[nodiscard]] std::string to_json() const;
};
std::ostream& operator<<(std::ostream& out, const Report& report);

/// On this signal, as SIGUSR1, the process writes to the standard error stream what every rank of all its
/// communicators and strategies did last, and goes on. The handler only reads memory and calls write(2), so
/// that it works where threads hang. Any thread may call.
/// @throws InvalidArgument  the system has no such signal, or lets nobody handle it.
void install_report_signal(int signal);

}  // namespace lockstep

#pragma GCC visibility pop

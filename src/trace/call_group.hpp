#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/report.hpp>

#include "detail/process.hpp"
#include "detail/ticks.hpp"
#include "trace/call_difference.hpp"
#include "trace/call_ring.hpp"

namespace lockstep::detail {

/// The newest calls of the ranks of a group. The process knows all groups that live.
class CallGroup {
 public:
  /// @param labels  by rank: "replica 2 (CPU:2)". @param member  static: the noun for a rank in messages.
  CallGroup(std::vector<std::string> labels, std::string_view member);
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  CallRing& operator[](int rank) noexcept { return rings_[static_cast<std::size_t>(rank)]; }
  const CallRing& operator[](int rank) const noexcept { return rings_[static_cast<std::size_t>(rank)]; }
  int num_ranks() const noexcept { return static_cast<int>(rings_.size()); }
  const std::vector<std::string>& labels() const noexcept { return labels_; }
  std::string_view member() const noexcept { return member_; }
  /// Counted in the process, from 1.
  std::uint64_t number() const noexcept { return number_; }

  /// @param name  empty: "group 3 of 4 replicas". @param first_rank  the number of the first one.
  GroupReport report(std::string name, int first_rank) const;
  /// The first call of the newest run that is there of all ranks and differs. @param run  the number of the
  /// run's first call: then calls that have failed do not count.
  CallDifference difference(std::optional<std::uint64_t> run = {}) const;
  /// For messages about a rank that others wait for: "whose last call was call 6, broadcast of [10] float32".
  std::string last_call(int rank) const;
  /// The rank's calls, oldest first.
  std::vector<ReportedCall> calls(int rank) const;
  /// The number of the first call that is there of the rank's newest run: calls count from 0 in each.
  std::uint64_t newest_run(int rank) const;

  /// The moment from which ticks are measured, before all calls.
  static const ClockPair& beginning() noexcept;
  /// Calls fn for every group of the process, none of which ends meanwhile. Also in a signal handler.
  static void for_each(FunctionRef<void(const CallGroup&)> fn) noexcept;

 private:
  const std::vector<std::string> labels_;
  const std::string_view member_;
  const std::uint64_t number_;
  const Process process_;
  std::vector<CallRing> rings_;
  std::size_t place_ = 0;  // in the list of groups; beyond it: not listed
};

/// "all_reduce(sum) of [10] float32, 'grad/3', in 'train'"
std::string text_of(const ReportedCall& call);

/// Finds out for whom others wait.
void mark_missing(GroupReport& group);

/// What Report::to_json has written; no groups if the text is something else.
Report report_from_json(std::string_view text);

}  // namespace lockstep::detail

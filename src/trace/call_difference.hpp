#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/error.hpp>
#include <lockstep/report.hpp>

namespace lockstep::detail {

/// The first call in which two ranks differ.
struct CallDifference {
  std::string text;  ///< "call 7: replica 1 (CPU:1): broadcast of [10] float32; replica 0 ..."; empty: none.
  bool is_newest = false;
  bool has_names = false;  ///< Labels or regions.
};

/// A rank's newest calls, as another process tells them.
class CallHistory {
 public:
  /// @param group  equal for the ranks of a group, in all processes. @param calls  oldest first.
  static std::string text(std::string group, std::vector<ReportedCall> calls);
  /// @param text  anything else than `text`: there are no calls.
  explicit CallHistory(std::string_view text);

  /// "broadcast of [10] float32, 'grad/3', in 'train'"; empty: there is none.
  std::string newest() const;
  /// Of two that have met in their newest calls, and so in those before in the same run; calls that have
  /// failed are left out.
  static CallDifference difference(std::string_view label, const CallHistory& history,
                                   std::string_view other_label, const CallHistory& other);

 private:
  std::string group_;
  std::vector<ReportedCall> calls_;
};

/// A mismatch whose message has the first recorded call that differs.
class DescribedMismatch final : public CollectiveMismatch {
 public:
  using CollectiveMismatch::CollectiveMismatch;
};

/// The error; where it is a mismatch of calls that does not tell the first recorded call that differs, and
/// that is an earlier one or has names, a DescribedMismatch.
std::exception_ptr with_difference(std::exception_ptr error, FunctionRef<CallDifference()> find) noexcept;

/// Whether calls of that name have equal shapes on all ranks.
bool has_one_shape(std::string_view operation);

}  // namespace lockstep::detail

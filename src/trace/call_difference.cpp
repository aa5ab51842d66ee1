#include "trace/call_difference.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "detail/concat.hpp"
#include "trace/call_group.hpp"

namespace lockstep::detail {

namespace {

bool are_alike(const ReportedCall& a, const ReportedCall& b) {
  return a.operation == b.operation && a.label == b.label && a.region == b.region &&
         (a.operands == b.operands || !has_one_shape(a.operation));
}

}  // namespace

bool has_one_shape(std::string_view operation) {
  for (const std::string_view alike : {"all_reduce", "reduce", "broadcast"})
    if (operation.starts_with(alike)) return true;
  return false;
}

std::string CallHistory::text(std::string group, std::vector<ReportedCall> calls) {
  GroupReport report{.name = std::move(group), .difference = {}, .ranks = {}};
  report.ranks.push_back({.rank = 0, .label = {}, .calls = std::move(calls)});
  return Report{{std::move(report)}}.to_json();
}

CallHistory::CallHistory(std::string_view text) {
  Report report = report_from_json(text);
  if (report.groups.empty() || report.groups.front().ranks.empty()) return;
  group_ = std::move(report.groups.front().name);
  calls_ = std::move(report.groups.front().ranks.front().calls);
  if (calls_.empty()) return;
  const auto has_failed = [](const ReportedCall& call) { return call.state == CallState::failed; };
  calls_.erase(std::remove_if(calls_.begin(), calls_.end() - 1, has_failed), calls_.end() - 1);
  auto run = calls_.end() - 1;  // its first call
  while (run != calls_.begin() && std::prev(run)->call < run->call) --run;
  calls_.erase(calls_.begin(), run);
}

std::string CallHistory::newest() const { return calls_.empty() ? std::string() : text_of(calls_.back()); }

CallDifference CallHistory::difference(std::string_view label, const CallHistory& history,
                                       std::string_view other_label, const CallHistory& other) {
  if (history.group_ != other.group_) return {};
  for (std::size_t age = std::min(history.calls_.size(), other.calls_.size()); age > 0; --age) {
    const ReportedCall& a = history.calls_[history.calls_.size() - age];
    const ReportedCall& b = other.calls_[other.calls_.size() - age];
    if (are_alike(a, b)) continue;
    return {
        .text = concat("call ", a.call, ": ", label, ": ", text_of(a), "; ", other_label, ": ", text_of(b)),
        .is_newest = age == 1,
        .has_names = !concat(a.label, a.region, b.label, b.region).empty()};
  }
  return {};
}

std::exception_ptr with_difference(std::exception_ptr error, FunctionRef<CallDifference()> find) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const DescribedMismatch&) {
    return error;
  } catch (const CollectiveMismatch& mismatch) {
    try {
      const CallDifference difference = find();
      if (difference.text.empty() || (difference.is_newest && !difference.has_names)) return error;
      const std::string_view message = mismatch.what();
      const std::string& hint = mismatch.context().hint;
      const std::size_t end = message.size() - (message.ends_with(hint) ? hint.size() : 0);
      return std::make_exception_ptr(DescribedMismatch(
          concat(message.substr(0, end), hint.empty() ? " " : "", "The first recorded call that differs: ",
                 difference.text, ".", hint.empty() ? "" : " ", message.substr(end)),
          mismatch.context()));
    } catch (...) {  // no memory: the error itself is told
      return error;
    }
  } catch (...) {
    return error;
  }
}

}  // namespace lockstep::detail

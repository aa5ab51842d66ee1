#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>
#include <sstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <lockstep/report.hpp>

#include "detail/concat.hpp"
#include "detail/json_document.hpp"
#include "trace/call_group.hpp"

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 6> kStates{"waiting", "started",   "enqueued",
                                                  "running", "completed", "failed"};

/// "2.50 s"
std::string seconds(std::chrono::nanoseconds time) {
  std::ostringstream out;
  out.exceptions(std::ios::badbit);
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(time < std::chrono::seconds(1) ? 6 : 2)
      << std::chrono::duration<double>(time).count() << " s";
  return std::move(out).str();
}

}  // namespace

std::string_view name(CallState state) { return kStates.at(static_cast<std::size_t>(state)); }

void detail::mark_missing(GroupReport& group) {
  // Who waits for others, on the host or on a device, and in which call.
  std::uint64_t awaited = 0, on_device = 0;
  bool is_awaited = false, is_on_device = false;
  for (const RankReport& rank : group.ranks) {
    for (const ReportedCall& call : rank.calls) {
      if (call.state != CallState::running || (is_on_device && call.number >= on_device)) continue;
      is_on_device = true;
      on_device = call.number;
    }
    if (rank.calls.empty()) continue;
    const ReportedCall& last = rank.calls.back();
    if (last.state != CallState::waiting && last.state != CallState::failed) continue;
    is_awaited = true;
    awaited = std::max(awaited, last.number);
  }
  for (RankReport& rank : group.ranks) {
    if (!rank.is_known) continue;
    rank.is_missing = is_awaited && (rank.calls.empty() || rank.calls.back().number < awaited);
    for (const ReportedCall& call : rank.calls)
      rank.is_missing |= is_on_device && call.number == on_device && call.state == CallState::enqueued;
  }
}

std::string detail::text_of(const ReportedCall& call) {
  std::string text = call.operation;
  if (!call.operands.empty()) text += " of " + call.operands;
  if (!call.label.empty()) text += ", '" + call.label + "'";
  if (!call.region.empty()) text += ", in '" + call.region + "'";
  return text;
}

std::string ReportedCall::to_string() const {
  const bool is_over = state == CallState::completed || state == CallState::failed;
  return detail::concat("call ", call, ", ", detail::text_of(*this), ", ", name(state),
                        is_over ? "; made " : " for ", seconds(age), is_over ? " ago" : "");
}

std::ostream& operator<<(std::ostream& out, const RankReport& rank) {
  out << rank.label << (rank.is_missing ? " (others wait for it): " : ": ");
  if (!rank.is_known) return out << "unknown: its worker has not answered";
  return rank.calls.empty() ? out << "no call" : out << rank.calls.back().to_string();
}

std::string Report::to_string() const {
  std::string text;
  for (const GroupReport& group : groups) {
    text += detail::concat(text.empty() ? "" : "\n", group.name, ":");
    for (const RankReport& rank : group.ranks) text += detail::concat("\n  ", rank);
    if (!group.difference.empty()) text += "\n  The first recorded call that differs: " + group.difference;
  }
  return text;
}

std::string Report::to_json() const {
  using nlohmann::json;
  detail::JsonDocument report(json::object());
  (*report)["version"] = 1;
  (*report)["process"] = ::getpid();
  json& all = (*report)["groups"] = json::array();
  for (const GroupReport& group : groups) {
    json& one = all.emplace_back(json::object());
    one["name"] = group.name;
    one["difference"] = group.difference;
    json& ranks = one["ranks"] = json::array();
    for (const RankReport& rank : group.ranks) {
      json& its = ranks.emplace_back(json::object());
      its["rank"] = rank.rank;
      its["label"] = rank.label;
      its["known"] = rank.is_known;
      its["missing"] = rank.is_missing;
      json& calls = its["calls"] = json::array();
      for (const ReportedCall& call : rank.calls) {
        json& its_call = calls.emplace_back(json::object());
        its_call["number"] = call.number;
        its_call["call"] = call.call;
        its_call["operation"] = call.operation;
        its_call["operands"] = call.operands;
        its_call["label"] = call.label;
        its_call["region"] = call.region;
        its_call["bytes"] = call.bytes;
        its_call["state"] = name(call.state);
        its_call["age_ns"] = call.age.count();
      }
    }
  }
  return report->dump(-1, ' ', false, json::error_handler_t::replace);
}

Report detail::report_from_json(std::string_view text) {
  Report report;
  try {
    const detail::JsonDocument all(nlohmann::json::parse(text));
    for (const auto& group : (*all).at("groups")) {
      GroupReport& one = report.groups.emplace_back();
      group.at("name").get_to(one.name);
      group.at("difference").get_to(one.difference);
      for (const auto& rank : group.at("ranks")) {
        RankReport& its = one.ranks.emplace_back();
        rank.at("rank").get_to(its.rank);
        rank.at("label").get_to(its.label);
        rank.at("known").get_to(its.is_known);
        rank.at("missing").get_to(its.is_missing);
        for (const auto& call : rank.at("calls")) {
          const auto state = std::ranges::find(kStates, call.at("state").get<std::string>());
          its.calls.push_back({.number = call.at("number"),
                               .call = call.at("call"),
                               .operation = call.at("operation"),
                               .operands = call.at("operands"),
                               .label = call.at("label"),
                               .region = call.at("region"),
                               .bytes = call.at("bytes"),
                               .state = static_cast<CallState>(state - kStates.begin()),
                               .age = std::chrono::nanoseconds(call.at("age_ns").get<std::int64_t>())});
        }
      }
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return report;
}

std::ostream& operator<<(std::ostream& out, const Report& report) { return out << report.to_string(); }

}  // namespace lockstep

#include "report/json_report.hpp"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <utility>

#include "detail/concat.hpp"
#include "report/names.hpp"

namespace lockstep::bench {
namespace {

using Json = nlohmann::ordered_json;
using detail::concat;

constexpr std::string_view kEndOfResults = "\n ]";

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

const char* text_of(bool value) { return value ? "true" : "false"; }

Json number(double value) { return std::isnan(value) ? Json("nan") : Json(value); }

Json placement_json(const Options& options, const Placement& placement) {
  Json json;
  json[options.report_cpu_time ? "cpu_time" : "time"] = number(placement.time_us);
  json["alg_bw"] = number(placement.bandwidth.algorithm);
  json["bus_bw"] = number(placement.bandwidth.bus);
  json["nwrong"] = placement.wrong ? number(static_cast<double>(*placement.wrong)) : Json();
  if (placement.floor) {
    json["floor_time"] = number(placement.floor->time_us);
    json["floor_ratio"] = number(placement.floor->ratio);
  }
  if (const auto& counted = placement.counted)
    json["counted"] = {{"ratio", counted->ratio ? number(*counted->ratio) : Json()},
                       {"sectors", number(counted->sectors)},
                       {"least_bytes", number(counted->least_bytes)},
                       {"launches", number(counted->launches)},
                       {"calls", number(counted->calls)},
                       {"waits", number(counted->waits)}};
  return json;
}

Json iterations_json(const IterationStatistics& iterations) {
  return {{"skipped_iterations", iterations.skipped},
          {"min_us", number(iterations.min)},
          {"max_us", number(iterations.max)},
          {"avg_us", number(iterations.mean)},
          {"p50_us", number(iterations.p50)},
          {"p95_us", number(iterations.p95)},
          {"p99_us", number(iterations.p99)},
          {"stdev_us", number(iterations.standard_deviation)},
          {"cv_pct", number(iterations.variation_percent)},
          {"times_us", iterations.times}};
}

}  // namespace

JsonReport::JsonReport(NewFile file, const std::vector<std::string>& arguments,
                       const std::vector<std::string>& environment)
    : file_(std::move(file)) {
  append("{");
  add_member("version", 3);
  add_member("start_time", timestamp_now());
  add_member("args", arguments);
  add_member("env", environment);
  add_member("nccl_version", 0);
}

void JsonReport::append(std::string_view text) {
  is_good_ = file_.write(size_bytes_, concat(text, closing_)) && is_good_;
  size_bytes_ += static_cast<std::int64_t>(text.size());
}

void JsonReport::add_member(std::string_view key, const Json& value) {
  const std::string_view comma = has_members_ ? "," : "";
  has_members_ = true;
  append(concat(comma, "\n \"", key, "\": ", dump(value)));
}

void JsonReport::add_config(const Options& options, std::span<const RankInfo> ranks) {
  Json config{{"nthreads", options.threads},
              {"ngpus", options.ranks_per_thread},
              {"minimum_bytes", options.min_bytes},
              {"maximum_bytes", options.max_bytes}};
  if (options.step_factor > 1)
    config["step_factor"] = options.step_factor;
  else
    config["step_bytes"] = options.step_bytes;
  config.update({{"warmup_iters", options.warmup_iterations},
                 {"iterations", options.iterations},
                 {"aggregated_iterations", options.aggregate},
                 {"validation", options.check},
                 {"graph", 0},
                 {"blocking_collectives", text_of(options.blocking != Blocking::none)},
                 {"per_iter_timing", text_of(options.per_iteration)},
                 {"per_iter_skip", options.per_iteration_skip},
                 {"parallel_init", text_of(false)},
                 {"backend", options.backend_name()},
                 {"algorithm", bench_name(options.algorithm)}});
  if (options.virtual_devices > 0) config["virtual_devices"] = options.virtual_devices;
  for (const RankInfo& rank : ranks) {
    config["devices"].push_back({{"rank", rank.rank},
                                 {"group", rank.group},
                                 {"pid", rank.pid},
                                 {"hostname", rank.hostname},
                                 {"device", rank.device},
                                 {"device_hex", rank.pci_bus_id},
                                 {"device_info", rank.device_name}});
  }
  add_member("config", config);
  closing_.insert(0, kEndOfResults);
  append(",\n \"results\": [");
}

void JsonReport::close_results() {
  if (!closing_.starts_with(kEndOfResults)) return;
  closing_.erase(0, kEndOfResults.size());
  append(kEndOfResults);
}

void JsonReport::add_row(const Options& options, const Row& row) {
  std::string root = std::to_string(row.root);
  root.insert(0, root.size() < 6 ? 6 - root.size() : 0, ' ');
  Json result{
      {"size", row.size_bytes}, {"count", row.count}, {"type", row.type}, {"redop", row.op}, {"root", root}};
  const auto add = [&](const char* key, const Placement& placement) {
    result[key] = placement_json(options, placement);
    if (placement.iterations) result[concat(key, "_per_iter")] = iterations_json(*placement.iterations);
  };
  add("out_of_place", row.out_of_place);
  add("in_place", row.in_place);
  result["actual_iterations"] = row.iterations;
  result["experiment_name"] = options.collective;
  append(concat(has_rows_ ? ",\n  " : "\n  ", dump(result)));
  has_rows_ = true;
}

void JsonReport::add_summary(const Summary& summary) {
  close_results();
  const int failed = summary.failed_checks();
  add_member("out_of_bounds", {{"count", failed}, {"okay", text_of(failed == 0)}});
  const auto passes = summary.bandwidth_passes();
  add_member("average_bus_bandwidth", {{"bandwidth", number(summary.average_bus_bandwidth())},
                                       {"okay", passes ? text_of(*passes) : "unchecked"}});
}

void JsonReport::add_error(std::string_view message) { errors_.emplace_back(message); }

bool JsonReport::finish() {
  close_results();
  add_member("errors", errors_);
  add_member("end_time", timestamp_now());
  return is_good_;
}

std::optional<NewFile> NewFile::create(const std::filesystem::path& path) {
  std::filesystem::path tried = path;
  for (int suffix = 0;; ++suffix) {
    // x: fails when the file exists, so that two runs cannot choose the same name
    if (std::FILE* file = std::fopen(tried.c_str(), "wx")) return NewFile(tried, file);
    if (errno != EEXIST) return {};
    tried = concat(path.native(), ".", suffix);
  }
}

bool NewFile::write(std::int64_t offset_bytes, std::string_view text) {
  return std::fseek(file_.get(), static_cast<long>(offset_bytes), SEEK_SET) == 0 &&
         std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() &&
         std::fflush(file_.get()) == 0;
}

std::vector<std::string> relevant_environment(const char* const* environment) {
  std::vector<std::string> relevant;
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    if (variable.starts_with("NCCL_") || variable.starts_with("LOCKSTEP_")) relevant.emplace_back(variable);
  }
  return relevant;
}

}  // namespace lockstep::bench

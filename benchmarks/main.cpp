#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "collectives/alltoallv.hpp"
#include "collectives/table.hpp"
#include "count/counting.hpp"
#include "detail/concat.hpp"
#include "measure/replica.hpp"
#include "measure/runner.hpp"
#include "measure/strategy_runner.hpp"
#include "operations/operation.hpp"
#include "options/options.hpp"
#include "processes/launch.hpp"
#include "processes/processes.hpp"
#include "report/json_report.hpp"
#include "report/progress.hpp"
#include "report/report.hpp"

namespace {

using namespace lockstep::bench;

// No report where the file cannot be made, which a message says.
std::optional<JsonReport> open_json(const std::string& path, const std::vector<std::string>& arguments) {
  auto file = NewFile::create(path);
  if (!file) {
    std::cout << "# skipping json output; " << path << " not accessible\n";
    return {};
  }
  std::cout << "# Writing JSON output to " << file->path().native() << '\n';
  return JsonReport(std::move(*file), arguments, relevant_environment(environ));
}

// @return whether the report is written; true where none was asked for.
bool finish(std::optional<JsonReport>& json) {
  if (!json || json->finish()) return true;
  std::cerr << "lockstep_bench: cannot write " << json->path().native() << '\n';
  return false;
}

// What has to be the same in all processes.
std::string settings(const std::vector<std::string>& arguments) {
  std::string text;
  for (std::size_t i = 1; i < arguments.size(); ++i) text += (i > 1 ? " " : "") + arguments[i];
  for (const std::string& variable : relevant_environment(environ))
    if (variable.starts_with("NCCL_TESTS_")) text += " " + variable;
  return text;
}

void require_same_settings(const Processes& processes, const std::string& own) {
  const std::vector<std::string> all = processes.all_gather("the command lines", own);
  for (std::size_t p = 1; p < all.size(); ++p)
    if (all[p] != all[0])
      throw OptionError(
          ExitStatus::usage,
          lockstep::detail::concat(processes.label(static_cast<int>(p)), " was started with '", all[p], "', ",
                                   processes.label(0), " with '", all[0], "'; give all processes the same"));
}

// Where one process finds a fault, all throw it: a file can be missing on one host only.
Options parse_in_all(const Processes& processes, const Launch& launch,
                     const std::vector<std::string>& flags) {
  Options options;
  nlohmann::json own;  // null: no fault
  try {
    options = parse_options(
        flags, all_traits(), [](const char* name) -> const char* { return std::getenv(name); }, launch);
  } catch (const OptionError& error) {
    own = {error.status(), error.what()};
  }
  const std::vector<std::string> all = processes.all_gather("the faults of the command lines", own.dump());
  for (std::size_t p = 0; p < all.size(); ++p) {
    const auto fault = nlohmann::json::parse(all[p]);
    if (fault.is_null()) continue;
    const auto text = fault[1].get<std::string>();
    throw OptionError(
        fault[0].get<ExitStatus>(),
        p == 0 ? text : lockstep::detail::concat(processes.label(static_cast<int>(p)), ": ", text));
  }
  return options;
}

// Follows the row, whose bandwidths are those of the rank with the most traffic.
void write_traffic(std::ostream& out, const Options& options, const Row& row, int num_ranks) {
  const auto element = static_cast<std::int64_t>(lockstep::size_of(lockstep::parse_dtype(row.type)));
  for (const Placement* placement : {&row.out_of_place, &row.in_place})
    options.traffic.write_summary(out, num_ranks, row.count * num_ranks * element, placement->time_us);
}

// Header, rows and footer of either kind of runner.
template <class Runner>
int report(std::ostream& out, const Options& options, const Processes& processes, Runner& runner,
           const Heading& heading, const std::vector<int>& groups, std::optional<JsonReport>& json) {
  const auto ranks = rank_infos(options, groups, processes);
  write_header(out, options, heading, ranks);
  if (json) json->add_config(options, ranks);

  Summary summary(options.pass_mark_gbps);
  const Traits& traits = *std::ranges::find(all_traits(), options.collective, &Traits::name);
  const auto group_size = static_cast<int>(std::ranges::count(groups, *std::ranges::min_element(groups)));
  Progress progress(processes.index() == 0 && isatty(STDERR_FILENO) != 0 ? &std::cerr : nullptr,
                    num_rows(options, traits, group_size));
  runner.run([&](const Row& row) {
    progress.erase();
    write_row(out, options, row);
    progress.row_done();
    if (json) json->add_row(options, row);
    summary.add(row);
    if (options.traffic.prints_summary) write_traffic(out, options, row, group_size);
  });
  write_footer(out, options, summary, processes.sum(runner.allocated_bytes()));
  if (json) json->add_summary(summary);
  return static_cast<int>(summary.passes() ? ExitStatus::success : ExitStatus::failed_check);
}

int measure(std::ostream& out, Options options, const Processes& processes, std::optional<JsonReport>& json) {
  if (options.count) require_counting();
  split_device(options);
  require_devices(options, processes);
  const Traits& traits = *std::ranges::find(all_traits(), options.collective, &Traits::name);
  const std::string_view floor = traits.floor_on(options.device_kind);
  if (fit_to_memory(options, find_memory(options, processes)))
    out << "# Reducing maxBytes to " << options.max_bytes << " due to memory limitation\n";
  if (const OperationEntry* entry = find_operation(options.collective)) {
    StrategyRunner runner(options, *entry, processes);
    const std::vector<int> one_group(static_cast<std::size_t>(options.num_ranks()), 0);
    return report(out, options, processes, runner, {entry->bus_formula, true, floor}, one_group, json);
  }
  const Collective& known = *find_collective(options.collective);
  const Collective collective = &known == &kAllToAllV ? alltoallv(options.traffic) : known;
  Runner runner(options, collective, processes);
  return report(
      out, options, processes, runner,
      {collective.bus_formula, !collective.has_in_place, options.shares_floor() ? kSharedHostFloor : floor},
      runner.groups(), json);
}

// measure(), whose failure in this process the others learn of.
int measure_with_others(std::ostream& out, const Options& options, const Processes& processes,
                        std::optional<JsonReport>& json) {
  try {
    return measure(out, options, processes, json);
  } catch (const std::exception& error) {
    processes.break_off(error.what());
    throw;
  }
}

ExitStatus status_of(const lockstep::Error& error) {
  if (dynamic_cast<const lockstep::CollectiveTimeout*>(&error) != nullptr) return ExitStatus::timeout;
  if (dynamic_cast<const lockstep::Unsupported*>(&error) != nullptr) return ExitStatus::not_implemented;
  if (dynamic_cast<const lockstep::DeviceError*>(&error) != nullptr) return ExitStatus::device_error;
  if (dynamic_cast<const lockstep::CollectiveError*>(&error) != nullptr) return ExitStatus::collective_error;
  return ExitStatus::internal_error;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  std::optional<JsonReport> json;
  ExitStatus status = ExitStatus::internal_error;
  std::string failure;
  bool reports = true;
  try {
    const std::vector<std::string> flags(arguments.begin() + (argc > 0 ? 1 : 0), arguments.end());
    Launch launch = find_launch();
    if (asks_for_help(flags)) {
      if (launch.process == 0) std::cout << usage();
      return static_cast<int>(ExitStatus::success);
    }
    const Processes processes(launch);
    reports = processes.index() == 0;  // for all
    launch.index_on_host = processes.index_on_host();
    require_same_settings(processes, settings(arguments));
    const Options options = parse_in_all(processes, launch, flags);
    std::ostream nowhere(nullptr);
    std::ostream& out = reports ? std::cout : nowhere;
    if (reports)
      for (const std::string& note : options.notes) std::cerr << "lockstep_bench: " << note << '\n';
    if (!launch.note.empty()) out << "# " << launch.note << '\n';
    if (reports && !options.output_file.empty()) json = open_json(options.output_file, arguments);
    const int result = measure_with_others(out, options, processes, json);
    const bool written = finish(json);
    if (!std::cout.flush()) std::cerr << "lockstep_bench: cannot write the table\n";
    return written && std::cout ? result : static_cast<int>(ExitStatus::internal_error);
  } catch (const OptionError& error) {
    // All processes throw the same one.
    if (!reports) return static_cast<int>(error.status());
    failure = error.what();
    status = error.status();
  } catch (const lockstep::Error& error) {
    failure = error.what();
    status = status_of(error);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::cerr << "lockstep_bench: " << failure << '\n';
  if (status == ExitStatus::usage) std::cerr << "lockstep_bench --help lists the collectives and options.\n";
  if (json) {
    json->add_error(failure);
    finish(json);
  }
  return static_cast<int>(status);
}

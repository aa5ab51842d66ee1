#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <vector>

#include <unistd.h>

#include <lockstep/error.hpp>

#include "collectives/collective.hpp"
#include "json_report.hpp"
#include "operations/operation.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "replica.hpp"
#include "report.hpp"
#include "runner.hpp"
#include "strategy_runner.hpp"

namespace {

using namespace lockstep::bench;

// The JSON file, if one was asked for and can be made.
class JsonFile {
 public:
  JsonFile(const std::string& path, const std::vector<std::string>& arguments)
      : report_(arguments, relevant_environment(environ)), file_(NewFile::create(path)) {
    if (file_)
      std::cout << "# Writing JSON output to " << file_->path().native() << '\n';
    else
      std::cout << "# skipping json output; " << path << " not accessible\n";
  }
  JsonReport& report() { return report_; }
  /// @return whether it is written, or was not to be.
  bool write() {
    if (!file_ || file_->write(report_.finish())) return true;
    std::cerr << "lockstep_bench: cannot write " << file_->path().native() << '\n';
    return false;
  }

 private:
  JsonReport report_;
  std::optional<NewFile> file_;
};

// Header, rows and footer of either kind of runner.
template <class Runner>
int report(const Options& options, Runner& runner, const Heading& heading, const std::vector<int>& groups,
           std::optional<JsonFile>& json) {
  const auto ranks = rank_infos(options, groups);
  write_header(std::cout, options, heading, ranks);
  if (json) json->report().add_config(options, ranks);

  Summary summary(options.pass_mark_gbps);
  const Traits& traits = *std::ranges::find(all_traits(), options.collective, &Traits::name);
  const auto group_size = static_cast<int>(std::ranges::count(groups, *std::ranges::min_element(groups)));
  Progress progress(isatty(STDERR_FILENO) != 0 ? &std::cerr : nullptr, num_rows(options, traits, group_size));
  runner.run([&](const Row& row) {
    progress.erase();
    write_row(std::cout, options, row);
    progress.row_done();
    if (json) json->report().add_row(options, row);
    summary.add(row);
  });
  write_footer(std::cout, options, summary, runner.allocated_bytes());
  if (json) json->report().add_summary(summary);
  return static_cast<int>(summary.passes() ? ExitStatus::success : ExitStatus::failed_check);
}

int measure(Options options, std::optional<JsonFile>& json) {
  if (fit_to_memory(options, find_memory(make_devices(options))))
    std::cout << "# Reducing maxBytes to " << options.max_bytes << " due to memory limitation\n";
  if (const OperationEntry* entry = find_operation(options.collective)) {
    StrategyRunner runner(options, *entry);
    const std::vector<int> one_group(static_cast<std::size_t>(options.num_ranks()), 0);
    return report(options, runner, {entry->bus_formula, true, entry->traits.floor}, one_group, json);
  }
  const Collective& collective = *find_collective(options.collective);
  Runner runner(options, collective);
  return report(options, runner, {collective.bus_formula, !collective.has_in_place, kCollectiveFloor},
                runner.groups(), json);
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
  std::optional<JsonFile> json;
  ExitStatus status = ExitStatus::internal_error;
  std::string failure;
  try {
    const Options options =
        parse_options({arguments.begin() + (argc > 0 ? 1 : 0), arguments.end()}, all_traits(),
                      [](const char* name) -> const char* { return std::getenv(name); });
    if (options.help) {
      std::cout << usage();
      return static_cast<int>(ExitStatus::success);
    }
    if (!options.output_file.empty()) json.emplace(options.output_file, arguments);
    const int result = measure(options, json);
    const bool written = !json || json->write();
    if (!std::cout.flush()) std::cerr << "lockstep_bench: cannot write the table\n";
    return written && std::cout ? result : static_cast<int>(ExitStatus::internal_error);
  } catch (const OptionError& error) {
    failure = error.what();
    status = error.status();
  } catch (const lockstep::Error& error) {
    failure = error.what();
    status = status_of(error);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::cerr << "lockstep_bench: " << failure << '\n';
  if (status == ExitStatus::usage) std::cerr << usage();
  if (json) {
    json->report().add_error(failure);
    json->write();
  }
  return static_cast<int>(status);
}

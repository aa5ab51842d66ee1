#include "report/report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/version.hpp>

#include "report/names.hpp"

namespace lockstep::bench {
namespace {

// The columns of a placement, with what stands above them in the two lines of the header.
struct Column {
  std::string name;
  std::string unit;
  int width;
};
using Columns = std::vector<Column>;

Columns case_columns() {
  return {
      {"size", "(B)", 10}, {"count", "(elements)", 12}, {"type", "", 8}, {"redop", "", 6}, {"root", "", 6}};
}

Columns placement_columns(const Options& options) {
  Columns columns{{options.report_cpu_time ? "cputime" : "time", "(us)", 7},
                  {"algbw", "(GB/s)", 6},
                  {"busbw", "(GB/s)", 6},
                  {"#wrong", "", 6}};
  if (options.per_iteration) {
    for (const char* name : {"i_min", "i_max", "i_p99"}) columns.push_back({name, "(us)", 7});
    columns.push_back({"i_cv%", "(%)", 7});
  }
  return columns;
}

constexpr int kTimestampWidth = 19;

constexpr int kCountWidth = 8;
constexpr std::array<std::pair<const char*, const char*>, 4> kCountColumns{
    {{"moved", "(/least)"}, {"launch", ""}, {"calls", ""}, {"waits", ""}}};

std::string right(std::string_view text, int width) {
  return std::string(static_cast<std::size_t>(std::max(0, width - static_cast<int>(text.size()))), ' ')
      .append(text);
}

std::string centered(std::string_view text, int width) {
  return right(text, (width + static_cast<int>(text.size())) / 2);
}

int width_of(const Columns& columns) {
  int width = 0;
  for (const Column& column : columns) width += 2 + column.width;
  return width;
}

Columns all_columns(const Options& options) {
  Columns columns = case_columns();
  for (int placement = 0; placement < 2; ++placement)
    for (const Column& column : placement_columns(options)) columns.push_back(column);
  if (options.floor) {
    for (const char* name : {"o_floor", "o_ratio", "i_floor", "i_ratio"})
      columns.push_back({name, std::string_view(name).ends_with("floor") ? "(us)" : "", 7});
  }
  if (options.count) {
    for (const char* placement : {"o_", "i_"})
      for (const auto& [name, unit] : kCountColumns)
        columns.push_back({std::string(placement) + name, unit, kCountWidth});
  }
  if (options.report_timestamps) columns.push_back({"timestamp", "%Y-%m-%d %H:%M:%S", kTimestampWidth});
  return columns;
}

void write_line(std::ostream& out, const std::string& line) {
  out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
}

void write_column_titles(std::ostream& out, const Options& options) {
  out << "#\n";
  const int placement_width = width_of(placement_columns(options));
  std::string placements = "#";
  placements.append(static_cast<std::size_t>(width_of(case_columns()) - 1), ' ');
  for (const char* placement : {"out-of-place", "in-place"}) {
    const std::string title = centered(placement, placement_width);
    placements.append(title).append(static_cast<std::size_t>(placement_width) - title.size(), ' ');
  }
  write_line(out, placements);
  for (const auto text : {&Column::name, &Column::unit}) {
    std::string line = "#";
    for (const Column& column : all_columns(options))
      line.append(line.size() == 1 ? 1 : 2, ' ').append(right(column.*text, column.width));
    write_line(out, line);
  }
}

void write_placement(std::ostream& out, const Placement& placement) {
  out << "  " << fit_number(placement.time_us, 7) << "  " << fit_number(placement.bandwidth.algorithm, 6)
      << "  " << fit_number(placement.bandwidth.bus, 6) << "  "
      << right(placement.wrong ? std::to_string(*placement.wrong) : "N/A", 6);
  if (!placement.iterations) return;
  const IterationStatistics& iterations = *placement.iterations;
  for (const double value : {iterations.min, iterations.max, iterations.p99, iterations.variation_percent})
    out << "  " << fit_number(value, 7);
}

}  // namespace

void write_header(std::ostream& out, const Options& options, const Heading& heading,
                  std::span<const RankInfo> ranks) {
  const bool multiplies = options.step_factor > 1;
  out << "# lockstep_bench version " << LOCKSTEP_VERSION_STRING << " backend " << options.backend_name()
      << ", output as of nccl-tests 2.19\n"
      << "# Collective test starting: " << options.collective << '\n'
      << "# nThread " << options.threads << " nGpus " << options.ranks_per_thread << " minBytes "
      << options.min_bytes << " maxBytes " << options.max_bytes
      << " step: " << (multiplies ? options.step_factor : options.step_bytes)
      << (multiplies ? "(factor)" : "(bytes)") << " warmup iters: " << options.warmup_iterations
      << " iters: " << options.iterations << " agg iters: " << options.aggregate
      << " validation: " << options.check << " graph: 0 unalign: " << options.unalign << '\n';
  if (options.blocking == Blocking::wait_and_barrier)
    out << "# Blocking Enabled: wait for completion and barrier after each collective\n";
  else if (options.blocking != Blocking::none)
    out << "# Blocking Enabled: wait for completion after each collective\n";
  if (options.per_iteration)
    out << "# Per-Iteration Report: host clock; the slowest thread of each iteration\n";
  if (options.floor) out << "# Floor: the time of " << heading.floor << ", and floor / time\n";
  if (options.count)
    out << "# Counted, per operation, on all ranks: sectors x 32 / bytes that must move, kernel launches, "
           "calls "
           "of CUDA, NCCL and cuBLAS, and of these those that wait\n";
  if (options.virtual_devices > 0)
    out << "# Virtual devices: GPU:" << options.first_device << " is split into " << options.virtual_devices
        << '\n';
  if (options.algorithm != Algorithm::automatic)
    out << "# Algorithm: " << bench_name(options.algorithm) << '\n';
  if (heading.has_one_form)
    out << "# " << options.collective << " has one form: both halves of the table measure it\n";
  for (const std::string& skipped : options.skipped_cases) out << "# Skipping " << skipped << '\n';
  out << "# algbw = size / time, busbw = algbw x " << heading.bus_formula
      << ", n = ranks of a group, GB = 1e9 bytes\n"
      << "#\n# Using devices\n";
  for (const RankInfo& rank : ranks) {
    out << "#  Rank " << std::setw(2) << rank.rank << " Group " << std::setw(2) << rank.group << " Pid "
        << std::setw(6) << rank.pid << " on " << std::setw(10) << rank.hostname << " device " << std::setw(2)
        << rank.device << " [" << rank.pci_bus_id << "] " << rank.device_name << '\n';
  }
  write_column_titles(out, options);
  out.flush();
}

void write_row(std::ostream& out, const Options& options, const Row& row) {
  out << right(std::to_string(row.size_bytes), 12) << "  " << right(std::to_string(row.count), 12) << "  "
      << right(row.type, 8) << "  " << right(row.op, 6) << "  " << right(std::to_string(row.root), 6);
  write_placement(out, row.out_of_place);
  write_placement(out, row.in_place);
  if (options.floor) {
    for (const Placement* placement : {&row.out_of_place, &row.in_place})
      out << "  " << fit_number(placement->floor->time_us, 7) << "  "
          << fit_number(placement->floor->ratio, 7);
  }
  if (options.count) {
    for (const Placement* placement : {&row.out_of_place, &row.in_place}) {
      const Counted& counted = *placement->counted;
      out << "  " << (counted.ratio ? fit_number(*counted.ratio, kCountWidth) : right("N/A", kCountWidth));
      for (const double number : {counted.launches, counted.calls, counted.waits})
        out << "  " << fit_number(number, kCountWidth);
    }
  }
  if (options.report_timestamps) out << "  " << right(row.timestamp, kTimestampWidth);
  out << '\n' << std::flush;
}

void write_footer(std::ostream& out, const Options& options, const Summary& summary,
                  std::int64_t memory_bytes) {
  out << "# Out of bounds values : " << summary.failed_checks()
      << (summary.failed_checks() == 0 ? " OK" : " FAILED") << '\n';
  // %g, as nccl-tests prints it
  std::array<char, 32> average{};
  std::snprintf(average.data(), average.size(), "%g", summary.average_bus_bandwidth());
  out << "# Avg bus bandwidth    : " << average.data() << ' ';
  if (const auto passes = summary.bandwidth_passes()) out << (*passes ? "OK" : "FAILED");
  out << '\n';
  if (options.report_memory)
    out << (options.device_kind == DeviceKind::gpu ? "# GPU memory usage     : "
                                                   : "# Memory usage         : ")
        << "User-Allocated " << memory_text(memory_bytes) << " | Total  " << memory_text(memory_bytes)
        << '\n';
  out << "#\n# Collective test concluded: " << options.collective << "\n#\n";
  out.flush();
}

std::string fit_number(double value, int width) {
  const auto format = [&](const char* pattern, int precision) {
    std::array<char, 400> text{};  // the largest double has 309 digits
    std::snprintf(text.data(), text.size(), pattern, width, precision, value);
    return std::string(text.data());
  };
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = format("%*.*f", decimals);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return format("%*.*e", width >= 7 ? 1 : 0);
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> text{};  // the largest double has 309 digits
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string memory_text(std::int64_t bytes) {
  double amount = static_cast<double>(bytes);
  std::string_view unit = "B";
  for (const std::string_view larger : {"KB", "MB", "GB"}) {
    if (amount < 1024) break;
    amount /= 1024;
    unit = larger;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(amount < 10 ? 2 : amount < 100 ? 1 : 0) << amount << ' ' << unit;
  return std::move(text).str();
}

}  // namespace lockstep::bench

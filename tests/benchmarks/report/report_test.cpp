#include "report/report.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/version.hpp>

using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {

Row make_row() {
  Row row{.size_bytes = 1 << 20, .count = 262144, .type = "float", .op = "sum", .root = -1, .iterations = 20};
  row.out_of_place = {.time_us = 123.456, .bandwidth = {8.49, 12.735}, .wrong = 0};
  row.in_place = {.time_us = 100.5, .bandwidth = {10.43, 15.65}, .wrong = 3};
  return row;
}

std::string row_text(const Options& options, const Row& row) {
  std::ostringstream out;
  write_row(out, options, row);
  return out.str();
}

std::vector<std::string> fields(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> result;
  for (std::string word; words >> word;) result.push_back(word);
  return result;
}

std::string header_text(Options options) {
  options.collective = "all_reduce";
  std::ostringstream out;
  const std::vector<RankInfo> ranks{{0, 0, 4242, "alpha", 0, "0000:00:00", "A CPU"},
                                    {1, 1, 4242, "alpha", 1, "0000:00:00", "A CPU"}};
  write_header(out, options, {"2(n-1)/n"}, ranks);
  return out.str();
}

std::string footer_text(const Options& options, const Summary& summary) {
  std::ostringstream out;
  write_footer(out, options, summary, std::int64_t{3} << 20);
  return out.str();
}

}  // namespace

TEST_CASE("a row has nccl-tests' 13 columns", "[benchmarks]") {
  CHECK(row_text({}, make_row()) ==
        "     1048576        262144     float     sum      -1   123.46    8.49   12.73       0   100.50   "
        "10.43   15.65       3\n");
}

TEST_CASE("at least two spaces separate fields, however large the values", "[benchmarks]") {
  Row row = make_row();
  row.size_bytes = 1'000'000'000'000'000;
  row.in_place = {.time_us = 123456789012.0, .bandwidth = {1234567.0, 1e-9}, .wrong = 12345678};
  const std::string text = row_text({}, row);
  CHECK(fields(text).size() == 13);
  std::string doubled;  // fields again, split at two or more spaces
  std::size_t num_fields = 1;
  const std::string trimmed = text.substr(text.find_first_not_of(' '));
  for (std::size_t at = 0; (at = trimmed.find("  ", at)) != std::string::npos;
       at = trimmed.find_first_not_of(' ', at))
    ++num_fields;
  CHECK(num_fields == 13);
}

TEST_CASE("unchecked results show N/A", "[benchmarks]") {
  Row row = make_row();
  row.out_of_place.wrong.reset();
  CHECK(fields(row_text({}, row)).at(8) == "N/A");
}

TEST_CASE(
    "option -I adds four columns to each placement, --floor two for each at the end, -S a timestamp after "
    "all",
    "[benchmarks]") {
  Row row = make_row();
  row.timestamp = "2026-01-31 23:59:59";
  row.out_of_place.iterations = iteration_statistics(std::vector<double>{1, 2, 3}, 0);
  row.in_place.iterations = row.out_of_place.iterations;
  row.out_of_place.floor = Floor{61.73, 0.5};
  row.in_place.floor = Floor{90.45, 0.9};
  Options options;
  options.per_iteration = options.floor = options.report_timestamps = true;
  const auto columns = fields(row_text(options, row));
  REQUIRE(columns.size() == 13 + 8 + 4 + 2);
  CHECK(columns[9] == "1.00");
  CHECK(columns[10] == "3.00");
  CHECK(columns[11] == "3.00");
  CHECK(columns[12] == "40.82");
  CHECK(columns[13] == "100.50");
  CHECK(std::vector(columns.begin() + 21, columns.begin() + 25) ==
        std::vector<std::string>{"61.73", "0.50", "90.45", "0.90"});
  CHECK_THAT(row_text(options, row), EndsWith("2026-01-31 23:59:59\n"));
  const std::string header = header_text(options);
  const std::string last = header.substr(header.rfind("\n#") + 1);
  CHECK(last.size() == row_text(options, row).size());
  CHECK_THAT(last, EndsWith("%Y-%m-%d %H:%M:%S\n"));
}

TEST_CASE("option --count adds four columns for each placement after the floor's", "[benchmarks]") {
  Row row = make_row();
  row.timestamp = "2026-01-31 23:59:59";
  row.out_of_place.floor = row.in_place.floor = Floor{61.73, 0.5};
  row.out_of_place.counted =
      Counted{.sectors = 65, .least_bytes = 2048, .ratio = 1.015625, .launches = 2, .calls = 7.5, .waits = 1};
  row.in_place.counted = Counted{.launches = 123456789};
  Options options;
  options.floor = options.count = options.report_timestamps = true;
  const auto columns = fields(row_text(options, row));
  REQUIRE(columns.size() == 13 + 4 + 8 + 2);
  CHECK(std::vector(columns.begin() + 17, columns.begin() + 25) ==
        std::vector<std::string>{"1.02", "2.00", "7.50", "1.00", "N/A", "1.2e+08", "0.00", "0.00"});
  const std::string header = header_text(options);
  CHECK_THAT(header, ContainsSubstring("# Counted, per operation, on all ranks: ") &&
                         ContainsSubstring(" o_moved  o_launch   o_calls   o_waits   i_moved"));
  CHECK(header.substr(header.rfind("\n#") + 1).size() == row_text(options, row).size());
}

TEST_CASE("numbers lose decimals, then turn to exponents, to fit their column", "[benchmarks]") {
  CHECK(fit_number(0, 7) == "   0.00");
  CHECK(fit_number(9999.99, 7) == "9999.99");
  CHECK(fit_number(9999.999, 7) == "10000.0");
  CHECK(fit_number(123456.7, 7) == " 123457");
  CHECK(fit_number(1234567, 7) == "1234567");
  CHECK(fit_number(12345678, 7) == "1.2e+07");
  CHECK(fit_number(123.456, 6) == "123.46");
  CHECK(fit_number(1234567, 6) == " 1e+06");
}

TEST_CASE("the header has nccl-tests' lines in their order, all of them comments", "[benchmarks]") {
  Options options;
  options.threads = 2;
  CHECK(header_text(options) ==
        "# lockstep_bench version " LOCKSTEP_VERSION_STRING
        " backend host, output as of nccl-tests 2.19\n"
        "# Collective test starting: all_reduce\n"
        "# nThread 2 nGpus 1 minBytes 33554432 maxBytes 33554432 step: 1048576(bytes) warmup iters: 1 iters: "
        "20 agg iters: 1 "
        "validation: 1 graph: 0 unalign: 0\n"
        "# algbw = size / time, busbw = algbw x 2(n-1)/n, n = ranks of a group, GB = 1e9 bytes\n"
        "#\n"
        "# Using devices\n"
        "#  Rank  0 Group  0 Pid   4242 on      alpha device  0 [0000:00:00] A CPU\n"
        "#  Rank  1 Group  1 Pid   4242 on      alpha device  1 [0000:00:00] A CPU\n"
        "#\n"
        "#                                                             out-of-place                       "
        "in-place\n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
        "algbw   busbw  #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  "
        "(GB/s)  (GB/s)\n");
  options.step_factor = 2;
  options.report_cpu_time = true;
  options.skipped_cases = {"mulsum: no"};
  options.algorithm = Algorithm::rank_order;
  options.first_device = 1;
  options.virtual_devices = 4;
  CHECK_THAT(header_text(options), ContainsSubstring(" step: 2(factor) ") &&
                                       ContainsSubstring("# Virtual devices: GPU:1 is split into 4\n") &&
                                       ContainsSubstring("  cputime  ") &&
                                       ContainsSubstring("# Algorithm: rank_order\n") &&
                                       ContainsSubstring("# Skipping mulsum: no\n"));
  std::ostringstream out;
  write_header(out, options, {.bus_formula = "3", .has_one_form = true}, {});
  CHECK_THAT(out.str(), ContainsSubstring("busbw = algbw x 3, ") && ContainsSubstring(" has one form"));
}

TEST_CASE("the footer has what parsers look for", "[benchmarks]") {
  Options options;
  options.collective = "all_reduce";
  Summary summary({});
  Row row = make_row();
  row.in_place.wrong = 0;
  summary.add(row);
  CHECK(footer_text(options, summary) ==
        "# Out of bounds values : 0 OK\n"
        "# Avg bus bandwidth    : 14.1925 \n"
        "#\n"
        "# Collective test concluded: all_reduce\n"
        "#\n");
  options.report_memory = true;
  CHECK_THAT(footer_text(options, summary),
             ContainsSubstring("# Memory usage         : User-Allocated 3.00 MB | Total  3.00 MB\n"));
  options.device_kind = lockstep::DeviceKind::gpu;
  CHECK_THAT(footer_text(options, summary), ContainsSubstring("# GPU memory usage     : User-Allocated "));
}

TEST_CASE("a run passes without wrong values and at 0.9 of the pass mark", "[benchmarks]") {
  Row row = make_row();
  row.in_place.wrong = 0;
  row.out_of_place.bandwidth.bus = 8;
  row.in_place.bandwidth.bus = 10;

  Summary unmarked({});
  CHECK(unmarked.average_bus_bandwidth() == 0);
  unmarked.add(row);
  CHECK(unmarked.average_bus_bandwidth() == 9);
  CHECK_FALSE(unmarked.bandwidth_passes().has_value());
  CHECK(unmarked.passes());

  Summary reached(10.0), missed(10.1);
  reached.add(row);
  missed.add(row);
  CHECK(reached.passes());
  CHECK_FALSE(missed.passes());
  CHECK_THAT(footer_text({}, reached), ContainsSubstring("# Avg bus bandwidth    : 9 OK\n"));
  CHECK_THAT(footer_text({}, missed), ContainsSubstring("# Avg bus bandwidth    : 9 FAILED\n"));

  Summary wrong({});
  wrong.add(make_row());
  wrong.add(row);
  CHECK(wrong.failed_checks() == 1);  // a measurement, however many values were wrong
  CHECK_FALSE(wrong.passes());
  CHECK_THAT(footer_text({}, wrong), ContainsSubstring("# Out of bounds values : 1 FAILED\n"));
}

TEST_CASE("memory is written in units of 1024", "[benchmarks]") {
  CHECK(memory_text(0) == "0.00 B");
  CHECK(memory_text(1536) == "1.50 KB");
  CHECK(memory_text(std::int64_t{512} << 20) == "512 MB");
  CHECK(memory_text(std::int64_t{20} << 30) == "20.0 GB");
}

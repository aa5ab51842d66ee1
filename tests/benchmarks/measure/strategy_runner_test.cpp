#include "measure/strategy_runner.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "report/names.hpp"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

Options parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin() + 1, {"-n", "3"});
  return parse_options(arguments, all_traits(), [](const char*) -> const char* { return nullptr; });
}

std::vector<Row> run(const Options& options, const OperationEntry& entry) {
  std::vector<Row> rows;
  StrategyRunner(options, entry, Processes()).run([&](const Row& row) { rows.push_back(row); });
  return rows;
}

std::vector<Row> run(const std::vector<std::string>& arguments) {
  return run(parse(arguments), *find_operation(arguments[0]));
}

void check_no_wrong_values(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.type << " " << row.op << " " << row.size_bytes);
    CHECK(row.out_of_place.wrong == 0);
    CHECK(row.in_place.wrong == 0);
  }
}

// Another operation, whose results have one element off.
class Broken : public StrategyOperation {
 public:
  explicit Broken(std::unique_ptr<StrategyOperation> whole) : whole_(std::move(whole)) {}
  void prepare(std::optional<std::uint64_t> seed) override { whole_->prepare(seed); }
  void run(int times) override { whole_->run(times); }
  std::vector<Tensor> results() const override {
    std::vector<Tensor> results = whole_->results();
    results.back() = results.back().clone().reshape(Shape(results.back().size()));
    results.back().slice(0, 1).add_(64);
    return results;
  }
  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    return whole_->count_wrong(seed, results);
  }

 private:
  std::unique_ptr<StrategyOperation> whole_;
};

// Another operation that is never run.
class Idle : public StrategyOperation {
 public:
  explicit Idle(std::unique_ptr<StrategyOperation> whole) : whole_(std::move(whole)) { whole_->run(1); }
  void prepare(std::optional<std::uint64_t> seed) override { whole_->prepare(seed); }
  void run(int) override {}
  std::vector<Tensor> results() const override { return whole_->results(); }
  std::int64_t count_wrong(std::uint64_t seed, std::span<const Tensor> results) const override {
    return whole_->count_wrong(seed, results);
  }

 private:
  std::unique_ptr<StrategyOperation> whole_;
};

// Of any operation, with two replicas.
std::vector<std::string> small_arguments(const std::string& name) {
  std::vector<std::string> arguments{name, "--replicas", "2"};
  if (name == "batch_reduce") arguments.insert(arguments.end(), {"--sizes", "1K,4K"});
  if (name == "axis_reduce") arguments.insert(arguments.end(), {"--shape", "8,3,40"});
  if (name == "update") arguments.insert(arguments.end(), {"-b", "4K", "-e", "4K"});
  return arguments;
}

const OperationEntry* whole_entry = nullptr;

template <class Planted>
Row run_planted(const std::string& name) {
  whole_entry = find_operation(name);
  OperationEntry entry = *whole_entry;
  entry.make = [](Strategy& strategy, const Options& options, const DataCase& data,
                  std::int64_t size) -> std::unique_ptr<StrategyOperation> {
    return std::make_unique<Planted>(whole_entry->make(strategy, options, data, size));
  };
  return run(parse(small_arguments(name)), entry).at(0);
}

}  // namespace

TEST_CASE("run and merge_call have one row without data, in which each replica is counted", "[benchmarks]") {
  const auto name = GENERATE("run", "merge_call");
  const auto replicas = GENERATE("1", "2", "3");
  const auto rows = run({name, "--replicas", replicas, "-m", "4", "-c", "2"});
  REQUIRE(rows.size() == 1);
  check_no_wrong_values(rows);
  CHECK(rows[0].size_bytes == 0);
  CHECK(rows[0].type == "none");
  CHECK(rows[0].op == "none");
  CHECK(rows[0].out_of_place.bandwidth.bus == 0);
  CHECK(rows[0].out_of_place.time_us > 0);
}

TEST_CASE("update is right for every datatype and size", "[benchmarks]") {
  const auto replicas = GENERATE("1", "2", "3");
  const auto rows = run({"update", "--replicas", replicas, "-b", "8", "-e", "4K", "-f", "16", "-d", "all"});
  CHECK(rows.size() == 3 * 6);
  check_no_wrong_values(rows);
  for (const Row& row : rows)
    CHECK(row.size_bytes == row.count * static_cast<std::int64_t>(size_of(parse_dtype(row.type))));
}

TEST_CASE("axis_reduce is right for every datatype, operator and shape", "[benchmarks]") {
  const auto shape = GENERATE("1,1,1", "3,5,7", "1,64,130", "70,33,1");
  const auto rows = run({"axis_reduce", "--replicas", "2", "--shape", shape, "-d", "all", "-o", "all"});
  CHECK(rows.size() == 5 * 12 - 6);
  check_no_wrong_values(rows);
}

TEST_CASE("the size of an axis reduction says its outer extent", "[benchmarks]") {
  const auto rows = run({"axis_reduce", "--shape", "*,3,5", "-b", "100", "-e", "200", "-f", "2"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].count == 15);
  CHECK(rows[0].size_bytes == 60);
  CHECK(rows[1].count == 45);
  check_no_wrong_values(rows);
}

TEST_CASE("batch_reduce is right for every datatype, operator and algorithm", "[benchmarks]") {
  const auto algorithm = GENERATE("auto", "rank_order", "one_device", "hierarchical", "packed");
  const auto replicas = GENERATE("1", "3");
  INFO(algorithm << " on " << replicas);
  const auto rows = run({"batch_reduce", "--replicas", replicas, "--sizes", "1K,8,3K", "-d", "all", "-o",
                         "all", "--algorithm", algorithm});
  CHECK(rows.size() == 5 * 12 - 6);
  check_no_wrong_values(rows);
  CHECK(rows[0].size_bytes == 4104);
}

TEST_CASE("step is right on any number of replicas", "[benchmarks]") {
  const auto replicas = GENERATE("1", "2", "3");
  const auto rows = run({"step", "--replicas", replicas, "-m", "2", "-c", "2"});
  REQUIRE(rows.size() == 1);
  check_no_wrong_values(rows);
  CHECK(rows[0].type == "none");
}

TEST_CASE("input deals out whole batches, beyond the end of a pass", "[benchmarks]") {
  const auto replicas = GENERATE("1", "3");
  const auto rows = run({"input", "--replicas", replicas, "-m", "90", "-c", "2", "--floor"});  // 270 > 240
  REQUIRE(rows.size() == 1);
  check_no_wrong_values(rows);
  CHECK(rows[0].size_bytes == 256 * 784 * 4);
  CHECK(rows[0].type == "float");
  CHECK(rows[0].in_place.floor.value().time_us > 0);
}

TEST_CASE("floors are measured where there is one, and change no result", "[benchmarks]") {
  for (const OperationEntry* entry : all_operations()) {
    if (entry->traits.floor.empty() || entry->traits.name == "input") continue;
    auto arguments = small_arguments(std::string(entry->traits.name));
    arguments.insert(arguments.end(), {"--floor", "-m", "2"});
    INFO(entry->traits.name);
    const auto rows = run(arguments);
    REQUIRE(rows.size() == 1);
    check_no_wrong_values(rows);
    for (const Placement* placement : {&rows[0].out_of_place, &rows[0].in_place}) {
      const Floor floor = placement->floor.value();
      CHECK(floor.time_us > 0);
      CHECK(std::abs(floor.ratio * placement->time_us / floor.time_us - 1) < 1e-12);
    }
  }
  CHECK_FALSE(run(small_arguments("axis_reduce"))[0].out_of_place.floor.has_value());
}

TEST_CASE("a planted error of any operation is counted", "[benchmarks]") {
  for (const OperationEntry* entry : all_operations()) {
    const Row row = run_planted<Broken>(std::string(entry->traits.name));
    INFO(entry->traits.name);
    CHECK(row.out_of_place.wrong == 1);
    CHECK(row.in_place.wrong == 1);
  }
}

TEST_CASE("a strategy's iterations have times of one operation", "[benchmarks]") {
  const auto rows = run({"update", "-b", "64K", "-e", "64K", "-m", "10", "-I", "1", "--replicas", "2"});
  const Placement& placement = rows.at(0).in_place;
  CHECK(placement.iterations->mean > 0);
  CHECK(placement.iterations->mean <= 1.01 * placement.time_us);
}

TEST_CASE("an operation that does nothing is wrong", "[benchmarks]") {
  for (const OperationEntry* entry : all_operations()) {
    const Row row = run_planted<Idle>(std::string(entry->traits.name));
    INFO(entry->traits.name);
    CHECK(row.out_of_place.wrong > 0);
  }
}

TEST_CASE("options of the measurement count for a strategy's operations too", "[benchmarks]") {
  const auto rows = run({"update", "-b", "64", "-e", "64", "-I", "1",  "-K", "1", "-N", "2", "-c",
                         "0",      "-z", "1",  "-C", "1",  "-T", "60", "-S", "1", "-t", "2"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].in_place.iterations->times.size() == 3);
  CHECK_FALSE(rows[0].in_place.wrong.has_value());
  CHECK(rows[0].timestamp.size() == 19);
}

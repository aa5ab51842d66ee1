#include "measure/traffic.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include "collectives/alltoallv.hpp"
#include "exit_status.hpp"
#include "measure/runner.hpp"
#include "operations/operation.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

// A file with a matrix, and the environment that names it.
struct MatrixFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("lockstep_traffic_" + std::to_string(::getpid()));
  std::map<std::string, std::string> variables{{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path.string()}};

  explicit MatrixFile(const std::string& text) { std::ofstream(path) << text; }
  ~MatrixFile() { std::filesystem::remove(path); }
};

Traffic read(const std::map<std::string, std::string>& variables, int num_ranks = 3,
             std::int64_t min_bytes = 4096, std::int64_t max_bytes = 4096) {
  return read_traffic(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      num_ranks, min_bytes, max_bytes);
}

template <class... Arguments>
void check_refused(int status, const std::string& message,
                   const std::map<std::string, std::string>& variables, Arguments... arguments) {
  CAPTURE(message);
  try {
    read(variables, arguments...);
    FAIL("accepted");
  } catch (const OptionError& error) {
    CHECK(static_cast<int>(error.status()) == status);
    CHECK_THAT(error.what(), ContainsSubstring(message));
  }
}

// [rank] of what rank 0 sends.
std::vector<std::int64_t> sent(const Traffic& traffic, int num_ranks, std::int64_t total_bytes) {
  std::vector<std::int64_t> bytes;
  for (int to = 0; to < num_ranks; ++to) bytes.push_back(traffic.bytes(0, to, num_ranks, total_bytes));
  return bytes;
}

std::vector<Row> run(const Traffic& traffic, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments{"alltoallv", "-n", "2", "-c", "2"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Options options =
      parse_options(arguments, all_traits(), [](const char*) -> const char* { return nullptr; });
  const Collective collective = alltoallv(traffic);
  std::vector<Row> rows;
  Runner(options, collective, Processes()).run([&](const Row& row) { rows.push_back(row); });
  return rows;
}

constexpr const char* kMatrix = "100 200 150\n 50 100 75\n\n300 150 200.5";

}  // namespace

TEST_CASE("alltoallv's parts grow with the distance, as far as the spread says", "[benchmarks]") {
  CHECK(sent({}, 4, 6000) == std::vector<std::int64_t>{0, 992, 2000, 2992});  // sixths, down to 16 bytes
  CHECK(sent({.spread = 0}, 4, 6000) == std::vector<std::int64_t>{1488, 1488, 1488, 1488});
  CHECK(sent({.spread = 0.5}, 4, 6400) == std::vector<std::int64_t>{800, 1328, 1856, 2400});
  CHECK(sent({}, 1, 100) == std::vector<std::int64_t>{96});
  CHECK(Traffic().bytes(3, 1, 4, 6000) == 2000);  // from 3 to 1 is a distance of 2
  CHECK(Traffic().most_sent(4, 6000) == 5984);
  CHECK(Traffic().most_received(4, 6000) == 5984);
}

TEST_CASE("alltoallv's environment: spread, matrix, scale", "[benchmarks]") {
  CHECK(read({}).spread == 1);
  CHECK(read({{"NCCL_TESTS_ALLTOALLV_SPREAD", "0.25"}}).spread == 0.25);
  CHECK(read({{"NCCL_TESTS_ALLTOALLV_SPREAD", "-1"}}).spread == 0);
  CHECK(read({{"NCCL_TESTS_ALLTOALLV_SPREAD", "7"}}).spread == 1);
  CHECK(read({{"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "1"}}).prints_summary);
  CHECK_FALSE(read({{"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "0"}}).prints_summary);
  check_refused(6, "NCCL_TESTS_ALLTOALLV_SPREAD 'wide' is not a number",
                {{"NCCL_TESTS_ALLTOALLV_SPREAD", "wide"}});
  MatrixFile file(kMatrix);
  const Traffic traffic = read(file.variables);
  CHECK(traffic.matrix ==
        std::vector<std::vector<std::int64_t>>{{96, 192, 144}, {48, 96, 64}, {288, 144, 192}});
  CHECK(traffic.most_sent(3, 0) == 624);
  CHECK(traffic.most_received(3, 0) == 432);
  CHECK(traffic.most_sent(2, 0) == 288);
  file.variables["NCCL_TESTS_ALLTOALLV_MATRIX_SCALE"] = "2";
  CHECK(read(file.variables).matrix[0] == std::vector<std::int64_t>{192, 400, 288});
}

TEST_CASE("a matrix that cannot be used is refused with nccl-tests' status", "[benchmarks]") {
  const auto check = [](const char* text, const std::string& message) {
    const MatrixFile file(text);
    check_refused(1, message, file.variables);
  };
  check_refused(1, "'/nowhere/matrix' cannot be read",
                {{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "/nowhere/matrix"}});
  check("", "has no numbers");
  check("1 2\n3 x", "has 'x' in row 1, column 1, which is not a number of bytes");
  check("1 -2\n3 4", "has '-2' in row 0, column 1");
  check("1 1e300\n3 4", "has '1e300'");
  check("1 2\n3", "is not square: 2 rows, and a row of 1");
  check("1 2 3\n3 4 5", "is not square: 2 rows, and a row of 3");
  check("1 2\n3 4", "has 2 rows, fewer than the 3 ranks");
  check("4e18 4e18 4e18\n0 0 0\n0 0 0", "needs buffers of 4611686018427387904 bytes");
  const MatrixFile file(kMatrix);
  check_refused(1, "-b and -e have to be equal", file.variables, 3, 1024, 4096);
  check_refused(1, "needs buffers of 624 bytes, but -e (--maxbytes) is 623", file.variables, 3, 623, 623);
}

TEST_CASE("alltoallv is right for any traffic, in batches and with several ranks for a thread",
          "[benchmarks]") {
  const double spread = GENERATE(0.0, 0.3, 1.0);
  const std::vector<std::string> ranks =
      GENERATE(as<std::vector<std::string>>(), std::vector<std::string>{"--replicas", "1"},
               std::vector<std::string>{"--replicas", "4"}, std::vector<std::string>{"-t", "2", "-g", "2"});
  std::vector<std::string> flags{"-b", "64", "-e", "4K", "-f", "8", "-d", "all", "-m", "3", "-u", "1"};
  flags.insert(flags.end(), ranks.begin(), ranks.end());
  const auto rows = run({.spread = spread}, flags);
  CHECK(rows.size() == 3 * 12);
  for (const Row& row : rows) {
    CHECK(row.out_of_place.wrong == 0);
    CHECK(row.in_place.wrong == 0);
  }
}

TEST_CASE("alltoallv by a matrix has a count of 0 and the size of the rank with the most traffic",
          "[benchmarks]") {
  const MatrixFile file(kMatrix);
  const Traffic traffic = read(file.variables);
  const auto rows = run(traffic, {"-b", "4K", "-e", "4K", "--replicas", "3", "-d", "half"});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 0);
  CHECK(rows[0].size_bytes == 624);
  CHECK(rows[0].out_of_place.wrong == 0);
  CHECK(rows[0].op == "none");
  CHECK(rows[0].root == -1);
}

#include "measure/runner.hpp"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/error.hpp>

#include "operations/operation.hpp"
#include "report/names.hpp"

using namespace lockstep;
using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

Options parse(std::vector<std::string> flags, const std::map<std::string, std::string>& environment = {},
              const std::string& collective = "all_reduce") {
  flags.insert(flags.begin(), {collective, "-n", "3"});
  return parse_options(flags, all_traits(), [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::vector<Row> run(const Options& options, const Collective& collective = *find_collective("all_reduce")) {
  std::vector<Row> rows;
  Runner(options, collective, Processes()).run([&](const Row& row) { rows.push_back(row); });
  return rows;
}

void check_no_wrong_values(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.type << " " << row.op << " " << row.size_bytes);
    CHECK(row.out_of_place.wrong == 0);
    CHECK(row.in_place.wrong == 0);
  }
}

}  // namespace

TEST_CASE("all_reduce is measured and right for every size, datatype and operator", "[benchmarks]") {
  const auto rows = run(parse({"-b", "1", "-e", "1K", "-f", "32", "-d", "all", "-o", "all", "--replicas", "3",
                               "--floor", "-c", "2"}));
  CHECK(rows.size() == 3 * (5 * 12 - 6));
  check_no_wrong_values(rows);
  for (const Row& row : rows)
    CHECK(row.size_bytes == row.count * static_cast<std::int64_t>(size_of(parse_dtype(row.type))));
}

TEST_CASE("every collective is measured and right for every size, datatype, operator and root",
          "[benchmarks]") {
  const auto name = GENERATE("reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter",
                             "alltoall", "alltoallv", "sendrecv");
  const std::string replicas = GENERATE("1", "2", "3");
  const Collective& collective = *find_collective(name);
  const auto rows = run(parse({"-b", "1", "-e", "1K", "-f", "32", "-d", "all", "-o", "all", "-r", "all",
                               "--replicas", replicas, "--floor", "-c", "2", "-n", "1"},
                              {}, name),
                        collective);
  INFO(name << " on " << replicas);
  const std::size_t num_cases = collective.reduces ? 5 * 12 - 6 : 12;
  const std::size_t num_roots = collective.has_root ? static_cast<std::size_t>(std::stoi(replicas)) : 1;
  CHECK(rows.size() == 3 * num_cases * num_roots);
  check_no_wrong_values(rows);
  for (const Row& row : rows) {
    CHECK((row.op == "none") == !collective.reduces);
    CHECK((row.root == -1) == !collective.has_root);
    CHECK(row.in_place.floor.has_value());
  }
}

TEST_CASE("parts of ranks are rounded down to 16 bytes", "[benchmarks]") {
  const auto row = [](const char* name, const char* size) {
    const Collective& collective = *find_collective(name);
    return run(parse({"-b", size, "-e", size, "--replicas", "3"}, {}, name), collective).at(0);
  };
  CHECK(row("all_gather", "100").count == 8);  // of 25 floats 8 for each rank
  CHECK(row("all_gather", "100").size_bytes == 96);
  CHECK(row("reduce_scatter", "100").count == 8);
  CHECK(row("reduce_scatter", "100").size_bytes == 96);
  CHECK(row("all_gather", "40").size_bytes == 0);
  for (const char* name : {"gather", "scatter", "alltoall"}) {
    CHECK(row(name, "100").count == 8);
    CHECK(row(name, "100").size_bytes == 96);
  }
  CHECK(row("sendrecv", "100").count == 25);
  CHECK(row("sendrecv", "100").size_bytes == 100);
  CHECK(row("broadcast", "100").count == 25);
  CHECK(row("reduce", "100").size_bytes == 100);
}

TEST_CASE("every collective works misaligned, in batches, and with several ranks for a thread",
          "[benchmarks]") {
  const auto name = GENERATE("reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter",
                             "alltoall", "alltoallv", "sendrecv");
  const auto rows = run(parse({"-b", "256", "-e", "512", "-f", "2", "-m", "3", "-u", "3", "-t", "2", "-g",
                               "2", "-r", "1", "-a", "3"},
                              {{"NCCL_TESTS_SPLIT", "MOD 2"}}, name),
                        *find_collective(name));
  CHECK(rows.size() == 2);
  check_no_wrong_values(rows);
}

TEST_CASE("a planted error of any collective is counted, in both placements", "[benchmarks]") {
  const auto name = GENERATE("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather",
                             "scatter", "alltoall", "alltoallv", "sendrecv");
  static const Collective* planted_in = nullptr;
  planted_in = find_collective(name);
  Collective broken = *planted_in;
  broken.run = [](Communicator& communicator, const Counts& counts, ReduceOp op, int root,
                  std::span<const RankBatch> batches, const CommunicationOptions& options) {
    planted_in->run(communicator, counts, op, root, batches, options);
    // rank 1, which is the root where there is one, has one element off
    for (const RankBatch& batch : batches)
      if (batch.rank == 1) static_cast<float*>(batch.outputs[0].data)[2] += 64;
  };
  const auto rows = run(parse({"-b", "1K", "-e", "1K", "--replicas", "3", "-r", "1"}, {}, name), broken);
  INFO(name);
  CHECK(rows.at(0).out_of_place.wrong == 1);
  CHECK(rows.at(0).in_place.wrong == 1);
}

TEST_CASE("a part that goes to the wrong rank is counted", "[benchmarks]") {
  Collective broken = *find_collective("sendrecv");
  broken.run = [](Communicator& communicator, const Counts&, ReduceOp, int,
                  std::span<const RankBatch> batches, const CommunicationOptions& options) {
    communicator.send_recv(std::vector<int>{2, 0, 1}, batches, options);
  };
  const auto rows = run(parse({"-b", "1K", "-e", "1K", "--replicas", "3"}, {}, "sendrecv"), broken);
  CHECK(rows.at(0).out_of_place.wrong > 3 * 256 / 2);  // by chance some values are the same
  CHECK(rows.at(0).in_place.wrong > 3 * 256 / 2);
}

TEST_CASE("a collective that does nothing is wrong everywhere", "[benchmarks]") {
  const auto name = GENERATE("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather",
                             "scatter", "alltoall", "alltoallv", "sendrecv");
  Collective idle = *find_collective(name);
  idle.run = [](Communicator&, const Counts&, ReduceOp, int, std::span<const RankBatch>,
                const CommunicationOptions&) {};
  const auto rows = run(parse({"-b", "4K", "-e", "4K", "-n", "1", "--replicas", "2"}, {}, name), idle);
  INFO(name);
  const std::int64_t num_results = idle.only_root_receives ? 1 : 2;
  const std::int64_t received = idle.counts(1024, 2, 4).receive * num_results;
  CHECK(rows.at(0).out_of_place.wrong == received);
  CHECK(rows.at(0).in_place.wrong > received / 4);  // the root's, or the own part, is right already
}

TEST_CASE("threads drive one rank or several, misaligned, in batches, with every kind of blocking",
          "[benchmarks]") {
  const auto ranks =
      GENERATE(as<std::vector<std::string>>(), std::vector<std::string>{"--replicas", "4"},
               std::vector<std::string>{"-t", "2", "-g", "2"}, std::vector<std::string>{"-g", "4"});
  const auto blocking = GENERATE("0", "1", "2", "3");
  std::vector<std::string> flags{"-b", "4", "-e", "300", "-i", "148", "-m", "5",
                                 "-u", "3", "-I", "1",   "-K", "1",   "-z", blocking};
  flags.insert(flags.end(), ranks.begin(), ranks.end());
  const auto rows = run(parse(flags));
  CHECK(rows.size() == 3);
  check_no_wrong_values(rows);
  for (const Row& row : rows) {
    const Placement& placement = row.in_place;
    CHECK(placement.iterations->times.size() == 3);
    CHECK(placement.iterations->skipped == 1);
  }
}

TEST_CASE("times of iterations are of one operation, as time is", "[benchmarks]") {
  const auto rows = run(parse({"-b", "256K", "-e", "256K", "-g", "2", "-m", "10", "-I", "1", "-n", "10"}));
  for (const Placement* placement : {&rows.at(0).out_of_place, &rows.at(0).in_place}) {
    CHECK(placement->iterations->mean > 0);
    CHECK(placement->iterations->mean <= 1.01 * placement->time_us);  // the clock is read in between
    CHECK(placement->iterations->mean > 0.2 * placement->time_us);
  }
}

TEST_CASE("checks stop at the first wrong pass", "[benchmarks]") {
  static int num_calls = 0;
  num_calls = 0;
  Collective broken = *find_collective("all_reduce");
  broken.run = [](Communicator& communicator, const Counts&, ReduceOp op, int,
                  std::span<const RankBatch> batches, const CommunicationOptions& options) {
    communicator.all_reduce(op, batches, options);
    static_cast<float*>(batches[0].outputs[0].data)[0] += 64;
    ++num_calls;
  };
  const auto rows = run(parse({"-b", "1K", "-e", "1K", "-g", "2", "-c", "5", "-w", "0"}), broken);
  CHECK(rows.at(0).out_of_place.wrong == 1);
  CHECK(rows.at(0).in_place.wrong == 1);
  CHECK(num_calls == 2 * (3 + 1));  // timed iterations and one pass for each placement
}

TEST_CASE("split ranks reduce within their groups", "[benchmarks]") {
  const Options options =
      parse({"-b", "64", "-e", "64", "-t", "3", "-g", "2", "--floor"}, {{"NCCL_TESTS_SPLIT", "MOD 2"}});
  const Processes alone;
  Runner runner(options, *find_collective("all_reduce"), alone);
  std::vector<Row> rows;
  runner.run([&](const Row& row) { rows.push_back(row); });
  check_no_wrong_values(rows);
  CHECK(rank_infos(options, runner.groups(), alone).at(3).group == 1);
  // the factor of 3 ranks, not of 6
  const Placement& placement = rows.at(0).in_place;
  CHECK(placement.bandwidth.bus > 1.3 * placement.bandwidth.algorithm);
  CHECK(placement.bandwidth.bus < 1.4 * placement.bandwidth.algorithm);
}

TEST_CASE("run cycles repeat the sweep, -c 0 checks nothing, and no elements take part", "[benchmarks]") {
  const auto rows = run(parse({"-b", "0", "-e", "8", "-i", "8", "-N", "2", "-c", "0", "-t", "2", "--floor"}));
  REQUIRE(rows.size() == 4);
  CHECK(rows[2].size_bytes == 0);
  CHECK(rows[2].out_of_place.bandwidth.bus == 0);
  CHECK(rows[3].count == 2);
  CHECK_FALSE(rows[3].in_place.wrong.has_value());
}

TEST_CASE("a collective that forgets a rank is caught, in both placements", "[benchmarks]") {
  Collective broken = *find_collective("all_reduce");
  broken.run = [](Communicator& communicator, const Counts&, ReduceOp op, int,
                  std::span<const RankBatch> batches, const CommunicationOptions& options) {
    communicator.all_reduce(op, batches, options);
    // rank 1's last element is not what was reduced
    for (const RankBatch& batch : batches)
      if (batch.rank == 1) static_cast<float*>(batch.outputs[0].data)[batch.outputs[0].size() - 1] += 64;
  };
  const auto rows = run(parse({"-b", "1K", "-e", "1K", "--replicas", "2"}), broken);
  CHECK(rows.at(0).out_of_place.wrong == 1);
  CHECK(rows.at(0).in_place.wrong == 1);
}

TEST_CASE("the first failure of a thread ends the run and reaches the caller", "[benchmarks]") {
  Collective failing = *find_collective("all_reduce");
  failing.run = [](Communicator& communicator, const Counts&, ReduceOp op, int,
                   std::span<const RankBatch> batches, const CommunicationOptions& options) {
    if (batches[0].rank == 2) throw std::runtime_error("rank 2 gives up");
    communicator.all_reduce(op, batches, options);
  };
  CHECK_THROWS_WITH(run(parse({"-b", "8", "-e", "8", "--replicas", "3"}), failing), "rank 2 gives up");
}

TEST_CASE("a time limit turns a missing rank into a CollectiveTimeout", "[benchmarks]") {
  Collective missing = *find_collective("all_reduce");
  missing.run = [](Communicator& communicator, const Counts&, ReduceOp op, int,
                   std::span<const RankBatch> batches, const CommunicationOptions& options) {
    if (batches[0].rank == 0) communicator.all_reduce(op, batches, options);
  };
  CHECK_THROWS_AS(run(parse({"-b", "8", "-e", "8", "--replicas", "2", "-T", "1"}), missing),
                  CollectiveTimeout);
}

TEST_CASE("the largest size is cut to the memory that is free", "[benchmarks]") {
  Options options = parse({"-b", "1K", "-e", "1G", "-f", "2", "--replicas", "4"});
  CHECK_FALSE(fit_to_memory(options, {std::int64_t{64} << 30, 4}));
  CHECK(options.max_bytes == std::int64_t{1} << 30);
  CHECK(fit_to_memory(options, {std::int64_t{1} << 30, 4}));
  CHECK(options.max_bytes == (std::int64_t{15} << 26) / 8);  // 15/16 of it, in 8 buffers
  CHECK(fit_to_memory(options, {4096, 4}));                  // the first size as well, as in nccl-tests
  CHECK(options.max_bytes == 480);
  CHECK(options.sizes() == std::vector<std::int64_t>{480});
  options = parse({"--sizes", "1M,1K", "--replicas", "4"}, {}, "batch_reduce");
  try {
    fit_to_memory(options, {4096, 4});
    FAIL("accepted");
  } catch (const OptionError& error) {
    CHECK(error.status() == ExitStatus::bad_size);
    CHECK_THAT(error.what(),
               ContainsSubstring("sizes that were listed need buffers of 1049600 bytes, and 4 ranks in one "
                                 "memory 8 of these, but 4096 bytes are free"));
  }
}

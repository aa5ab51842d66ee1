#include "all_reduce_sweep.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>

namespace lockstep::compare {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kFewestIterations = 3, kMostIterations = 100'000;

Sweep parse_sweep(const std::string& text) {
  long long first = 0, last = 0, factor = 0;
  int used = 0;
  const int read = std::sscanf(text.c_str(), "%lld:%lld:%lld%n", &first, &last, &factor, &used);
  const auto element = static_cast<long long>(sizeof(float));
  if (read != 3 || static_cast<std::size_t>(used) != text.size() || first < element || last < first ||
      factor < 2)
    throw CLI::ValidationError("--sweep",
                               text + " is not FIRST:LAST:FACTOR, of bytes from 4 on and a factor from 2 on");
  return {first, last, factor};
}

class Measurement {
 public:
  Measurement(Peer& peer, const Sweep& sweep, double seconds)
      : peer_(peer),
        seconds_(seconds),
        input_(static_cast<std::size_t>(sweep.last) / sizeof(float), 1.0f),
        output_(input_.size(), 0.0f) {}

  double time_us(std::size_t count) {
    run(count, 2);
    const double estimate = mean_over_ranks(timed(count, kFewestIterations)) / kFewestIterations;
    const auto wanted = static_cast<std::int64_t>(seconds_ / std::max(estimate, 1e-9));
    const std::int64_t iterations = std::clamp(wanted, kFewestIterations, kMostIterations);
    return 1e6 * mean_over_ranks(timed(count, iterations)) / static_cast<double>(iterations);
  }

  // Over all ranks.
  std::int64_t count_wrong(std::size_t count) {
    std::fill_n(input_.begin(), count, static_cast<float>(peer_.rank() + 1));
    std::fill_n(output_.begin(), count, -1.0f);
    run(count, 1);
    const int n = peer_.num_ranks();
    const auto expected = static_cast<float>(n * (n + 1) / 2);
    const auto right =
        std::count(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(count), expected);
    std::fill_n(input_.begin(), count, 1.0f);
    return static_cast<std::int64_t>(
        sum_over_ranks(static_cast<float>(static_cast<std::ptrdiff_t>(count) - right)));
  }

 private:
  void run(std::size_t count, std::int64_t iterations) {
    const std::size_t slots = input_.size() / count;
    for (std::int64_t i = 0; i < iterations; ++i) {
      const std::size_t offset = static_cast<std::size_t>(i) % slots * count;
      peer_.all_reduce(input_.data() + offset, output_.data() + offset, count);
    }
  }

  double timed(std::size_t count, std::int64_t iterations) {
    sum_over_ranks(0);  // ranks meet
    const auto start = Clock::now();
    run(count, iterations);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  float sum_over_ranks(float value) {
    float sum = 0;
    peer_.all_reduce(&value, &sum, 1);
    return sum;
  }

  // The same on all ranks, so that they agree on the number of iterations.
  double mean_over_ranks(double value) {
    return static_cast<double>(sum_over_ranks(static_cast<float>(value))) / peer_.num_ranks();
  }

  Peer& peer_;
  double seconds_;
  std::vector<float> input_, output_;
};

}  // namespace

SweepOptions parse_sweep_options(int argc, char** argv) {
  SweepOptions options;
  std::vector<std::string> sweeps;
  CLI::App app("Times all-reduces of f32 sums, and prints JSON.");
  app.add_option("--sweep", sweeps, "FIRST:LAST:FACTOR, sizes in bytes; several are possible")->required();
  app.add_option("--seconds", options.seconds, "that the iterations of one size shall take [0.1]");
  app.add_option("--ranks", options.num_ranks, "processes, where the program starts them [2]")
      ->check(CLI::Range(1, 1024));
  try {
    app.parse(argc, argv);
    for (const std::string& sweep : sweeps) options.sweeps.push_back(parse_sweep(sweep));
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

nlohmann::ordered_json measure_all_reduce(Peer& peer, const SweepOptions& options, const std::string& name,
                                          const std::string& version) {
  auto results = nlohmann::ordered_json::array();
  for (const Sweep& sweep : options.sweeps) {
    Measurement measurement(peer, sweep, options.seconds);
    for (std::int64_t size = sweep.first; size <= sweep.last; size *= sweep.factor) {
      const auto count = static_cast<std::size_t>(size) / sizeof(float);
      const double time_us = measurement.time_us(count);
      results.push_back({{"operation", "all_reduce"},
                         {"ranks", peer.num_ranks()},
                         {"size", size},
                         {"in_place", false},
                         {"time", time_us},
                         {"wrong", measurement.count_wrong(count)}});
    }
  }
  return {{"peer", name}, {"version", version}, {"results", std::move(results)}};
}

}  // namespace lockstep::compare

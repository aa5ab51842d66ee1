// lockstep_simulation --seeds FIRST:COUNT [-j N] | --seed N [--verbose]: README.md.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <map>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>

#include "simulation/fork.hpp"
#include "simulation/plan.hpp"
#include "simulation/scenario.hpp"

using namespace lockstep::simulation;

namespace {

struct Options {
  std::string seeds = "0:150";
  std::uint64_t seed = 0;
  int num_processes = 1;
  double hours = 0;
  unsigned limit_seconds() const { return 120 + static_cast<unsigned>(hours * 600); }
  bool is_verbose = false, is_repeated = false;
  Defect defect = Defect::none;
};

Simulated simulated(std::uint64_t seed, const Options& options) {
  return [seed, hours = options.hours, defect = options.defect](System& system, Network& network) {
    Plan plan = hours > 0 ? Plan(seed, hours) : Plan(seed);
    plan.defect = defect;
    return run_scenario(plan, system, network);
  };
}

class Totals {
 public:
  void add(const Outcome& outcome) {
    ++num_seeds_;
    if (!outcome.failure.empty()) {
      ++num_failures_;
      std::printf("seed %llu fails: %s\n", static_cast<unsigned long long>(outcome.seed),
                  outcome.failure.c_str());
      std::fflush(stdout);
    }
    time_ += outcome.time;
    num_switches_ += outcome.num_switches;
    std::istringstream text(outcome.result);
    std::string name;
    for (std::uint64_t count = 0; text >> name >> count;) counts_[name] += count;
  }
  /// @return the number of failures.
  int print(double seconds) const {
    std::printf("%d seeds, %d failures, %.1f s (%.0f seeds an hour)\n", num_seeds_, num_failures_, seconds,
                num_seeds_ / seconds * 3600);
    std::printf("virtual time %.2f h, %llu switches between threads\n",
                static_cast<double>(time_) / static_cast<double>(3600 * kSecond),
                static_cast<unsigned long long>(num_switches_));
    for (const auto& [name, count] : counts_)
      std::printf("  %-24s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
    return num_failures_;
  }

 private:
  int num_seeds_ = 0, num_failures_ = 0;
  Time time_ = 0;
  std::uint64_t num_switches_ = 0;
  std::map<std::string, std::uint64_t> counts_{};
};

int run_all(const Options& options) {
  const std::size_t colon = options.seeds.find(':');
  const std::uint64_t first = std::stoull(options.seeds);
  const std::uint64_t count = colon == std::string::npos ? 1 : std::stoull(options.seeds.substr(colon + 1));
  const auto begin = std::chrono::steady_clock::now();
  Totals totals;
  std::deque<Fork> running;
  for (std::uint64_t seed = first; seed < first + count || !running.empty();) {
    if (seed < first + count && running.size() < static_cast<std::size_t>(options.num_processes)) {
      running.emplace_back(seed, simulated(seed, options), false,
                           static_cast<int>(seed % static_cast<unsigned>(options.num_processes)),
                           options.limit_seconds());
      ++seed;
      continue;
    }
    Outcome outcome = running.front().wait();
    running.pop_front();
    if (options.is_repeated && outcome.failure.empty() &&
        simulate(outcome.seed, simulated(outcome.seed, options), false, options.limit_seconds()).hash !=
            outcome.hash)
      outcome.failure = "its second run is another one";
    totals.add(outcome);
  }
  return totals.print(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()) == 0
             ? 0
             : 1;
}

int run_one(const Options& options) {
  if (options.is_repeated)
    static_cast<void>(simulate(options.seed, simulated(options.seed, options), options.is_verbose,
                               options.limit_seconds()));
  const Outcome outcome =
      simulate(options.seed, simulated(options.seed, options), options.is_verbose, options.limit_seconds());
  std::printf("seed %llu: %s\nhash %016llx\n", static_cast<unsigned long long>(options.seed),
              outcome.failure.empty() ? outcome.result.c_str() : ("fails: " + outcome.failure).c_str(),
              static_cast<unsigned long long>(outcome.hash));
  return outcome.failure.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Simulates a cluster of lockstep's workers, one for each seed.");
  app.add_option("--seeds", options.seeds, "FIRST:COUNT")->capture_default_str();
  auto* const one = app.add_option("--seed", options.seed, "one alone, and its hash");
  app.add_flag("--verbose", options.is_verbose, "with --seed: all that happens");
  app.add_flag("--twice", options.is_repeated, "each seed again: it must give the same run");
  app.add_option("--hours", options.hours, "long training, of so many hours of virtual time")
      ->check(CLI::Range(0.1, 1000.0));
  app.add_option("-j", options.num_processes, "seeds at a time")->check(CLI::Range(1, 256));
  const std::map<std::string, Defect> defects = {
      {"skipped_step", Defect::skipped_step},       {"repeated_step", Defect::repeated_step},
      {"other_bits", Defect::other_bits},           {"lost_message", Defect::lost_message},
      {"open_descriptor", Defect::open_descriptor}, {"lost_memory", Defect::lost_memory},
      {"ignored_joiner", Defect::ignored_joiner}};
  app.add_option("--defect", options.defect, "what is broken on purpose")
      ->transform(CLI::CheckedTransformer(defects, CLI::ignore_case));
  CLI11_PARSE(app, argc, argv);
  try {
    prepare(argv);
    return one->count() > 0 ? run_one(options) : run_all(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep_simulation: %s\n", error.what());
    return 2;
  }
}

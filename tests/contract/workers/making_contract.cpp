#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/world.hpp"

/// Strategies are made by all workers or by none, and leave nothing behind; others of the process live on.
namespace lockstep::test {

namespace {

/// As many as the strategy has, and one twice among them.
std::vector<Device> wrong_devices() {
  std::vector<Device> devices = world().devices;
  devices.front() = devices.back();
  if (devices.size() == 1) devices.front() = Device(DeviceKind::gpu, 1000);
  return devices;
}

std::size_t num_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}
std::size_t num_threads() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(threads), end(threads)));
}

}  // namespace

TEST_CASE("a strategy that no worker can make leaves the others as they are", "[workers]") {
  const World& w = world();
  for (int i = 0; i < 3; ++i) {
    const Thrown thrown = thrown_by([&] { w.make_strategy_on(wrong_devices()); });
    CHECK(thrown.is<Error>());
    CHECK_FALSE(thrown.is<CollectiveError>());  // each throws its own
    CHECK(is_usable(w.strategy));
  }
  CHECK(is_usable(*w.make_strategy()));
}

TEST_CASE("a strategy that one worker cannot make throws on all, and leaves the others as they are",
          "[workers]") {
  const World& w = world();
  const int failing = GENERATE_COPY(0, w.num_workers - 1);
  for (int i = 0; i < 3; ++i) {
    const bool fails = w.worker == failing;
    const Thrown thrown = thrown_by([&] { w.make_strategy_on(fails ? wrong_devices() : w.devices); });
    CHECK(thrown.is<Error>());
    CHECK(thrown.is<CollectiveAborted>() != fails);
    if (!fails) CHECK(thrown.names(failing * w.num_local_replicas));
    CHECK(is_usable(w.strategy));
  }
  CHECK(is_usable(*w.make_strategy()));
}

TEST_CASE("strategies that are gone leave no files open, and no threads", "[workers]") {
  const auto after_one = [] {
    {
      const auto strategy = world().make_strategy();
      CHECK(is_usable(*strategy));
    }
    return std::pair(num_files(), num_threads());
  };
  // Engines close theirs a little later: the last strategies' may still be open.
  constexpr std::size_t kNumStrategies = 8;
  const auto first = after_one();
  auto last = first;
  for (std::size_t i = 0; i < kNumStrategies; ++i) last = after_one();
  CHECK(last.first < first.first + kNumStrategies);
  CHECK(last.second < first.second + kNumStrategies);
}

TEST_CASE("strategies at the same time are destroyed in another order on each worker", "[workers]") {
  const World& w = world();
  for (int i = 0; i < 3; ++i) {
    std::vector<std::unique_ptr<Strategy>> strategies;
    for (int k = 0; k < 3; ++k) strategies.push_back(w.make_strategy());
    for (const auto& strategy : strategies) CHECK(is_usable(*strategy));
    for (std::size_t k = 0; k < strategies.size(); ++k)
      strategies[(k + static_cast<std::size_t>(w.worker)) % strategies.size()].reset();
    CHECK(is_usable(w.strategy));
  }
}

}  // namespace lockstep::test

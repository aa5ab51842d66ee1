// Whole epochs of distributed input: what they leave in memory, and which threads they have.
#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/memory.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "detail/sanitizers.hpp"
#include "support/input.hpp"

using namespace lockstep;
using test::host_devices;

namespace {

#if LOCKSTEP_ADDRESS_SANITIZER || LOCKSTEP_THREAD_SANITIZER
constexpr std::int64_t kNumRows = 1'000'000;
constexpr bool kCountsMemory = false;  // the sanitizer keeps what is freed
#else
constexpr std::int64_t kNumRows = 10'000'000;
constexpr bool kCountsMemory = true;
#endif

/// A number of /proc/self/status: VmRSS in KiB, Threads.
std::int64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string key;
  std::int64_t value = 0;
  while (file >> key) {
    if (key == name + ":" && file >> value) break;
    std::getline(file, key);
  }
  return value;
}

/// How many threads the process has. One that was joined may be counted for a moment more.
std::int64_t num_threads() {
  std::int64_t least = status("Threads");
  for (int i = 0; i < 10; ++i) least = std::min(least, status("Threads"));
  return least;
}

/// The same, with those that a sanitizer starts with the first thread.
std::int64_t num_threads_before() {
  std::thread([] {}).join();
  return num_threads();
}

}  // namespace

TEST_CASE("an epoch over ten million rows grows neither memory nor threads", "[input][host]") {
  const bool is_shuffled = GENERATE(false, true);
  MirroredStrategy strategy(host_devices(4));
  auto numbers = Dataset::range(kNumRows);
  if (is_shuffled) numbers = numbers.shuffle(10'000, 1);
  const std::int64_t threads_before = num_threads_before();
  {
    auto iterator = strategy.distribute_dataset(numbers.batch(1024)).iterator();
    std::int64_t num_rows = 0, sum = 0, steps = 0;
    std::int64_t resident = 0, most_resident = 0, most_threads = 0;
    const std::int64_t allocations_before = memory_stats("CPU:0").num_allocations;
    while (const std::optional<PerReplica<Tensor>> value = iterator.next_optional()) {
      for (const Tensor& part : *value) {
        const auto* numbers_of_part = static_cast<const std::int64_t*>(part.view().data);
        for (std::int64_t i = 0; i < part.size(); ++i) sum += numbers_of_part[i];
        num_rows += part.size();
      }
      if (++steps == 100) resident = status("VmRSS");
      if (steps % 100 == 0) {
        most_resident = std::max(most_resident, status("VmRSS"));
        most_threads = std::max(most_threads, status("Threads"));
      }
    }
    CHECK(num_rows == kNumRows);
    CHECK(sum == kNumRows * (kNumRows - 1) / 2);
    CHECK(steps == (kNumRows + 1023) / 1024);
    REQUIRE(resident > 0);
    if (kCountsMemory) CHECK(most_resident - resident <= 2048);  // KiB; the rows are 78 MiB
    CHECK(most_threads == threads_before + 1);
    // For each replica: one part that is ready, one that is being made, the last two that were given, and the
    // last batch's, which is smaller.
    CHECK(memory_stats("CPU:0").num_allocations - allocations_before <= 4 * 5);
  }
  CHECK(num_threads() == threads_before);
}

TEST_CASE("passes leave no threads and no memory behind, wherever they are dropped", "[input][host]") {
  MirroredStrategy strategy(host_devices(3));
  const auto dist = strategy.distribute_dataset(Dataset::range(100).repeat().batch(7),
                                                {.per_replica_buffer_size = GENERATE(0, 1, 5)});
  const std::int64_t threads = num_threads_before();
  const std::int64_t in_use = memory_stats("CPU:0").in_use_bytes;
  for (int num_steps = 0; num_steps < 40; ++num_steps) {
    auto iterator = dist.iterator();
    for (int step = 0; step < num_steps; ++step) CHECK(iterator.next().size() == 3);
  }
  CHECK(num_threads() == threads);
  CHECK(memory_stats("CPU:0").in_use_bytes == in_use);
}

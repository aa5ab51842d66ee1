#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/trace.hpp>

#include "support/captured_stderr.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::says;

namespace {

using std::chrono::milliseconds;

/// A recording while it lives.
struct Recorded {
  Recorded() { trace::start(); }
  ~Recorded() { trace::stop(); }
};

Tensor slow(const Tensor& x) {
  std::this_thread::sleep_for(milliseconds(1));
  return x;
}
Tensor fast(const Tensor& x) { return x; }

template <class Iterator>
void read_all(Iterator& iterator) {
  while (iterator.next_optional()) {
  }
}

StageStatistics stage_of(const InputStatistics& statistics, std::string_view name) {
  const auto found = std::ranges::find_if(
      statistics.stages, [&](const StageStatistics& stage) { return stage.stage.starts_with(name); });
  INFO(name);
  REQUIRE(found != statistics.stages.end());
  return *found;
}

}  // namespace

TEST_CASE("a pass counts what its stages give, and names the slowest", "[input][host]") {
  const Recorded recorded;
  auto iterator = Dataset::range(20).shuffle(4, 1).map(slow).map(fast).batch(5).iterator();
  read_all(iterator);
  const InputStatistics statistics = iterator.statistics();
  REQUIRE(statistics.stages.size() == 5);
  CHECK(statistics.stages[0].stage == "range(0, 20, 1)");
  CHECK(statistics.stages[1].stage == "shuffle(4)");
  CHECK(statistics.stages[1].num_elements == 20);
  const StageStatistics batch = statistics.stages[4], map = statistics.stages[2];
  CHECK(batch.stage == "batch(5)");
  CHECK(batch.num_elements == 4);
  CHECK(map.num_elements == 20);
  CHECK(map.work >= milliseconds(20));
  CHECK(batch.total >= map.total);
  CHECK(batch.work < map.work);
  CHECK(batch.waiting.count() == 0);
  CHECK(statistics.slowest.starts_with("The slowest stage is map(one call): "));
  CHECK(statistics.slowest.find(" ms for 20 elements, ") != std::string::npos);
  std::ostringstream out;
  out << statistics;
  CHECK(out.str().find("stage") == 0);
  CHECK(out.str().find("shuffle(4)") != std::string::npos);
  CHECK(out.str().find(statistics.slowest) != std::string::npos);
}

TEST_CASE("threads' work and buffers are those of their stages", "[input][host]") {
  const Recorded recorded;
  auto iterator = Dataset::range(30).map(slow, {.num_parallel_calls = 3}).prefetch(4).map(fast).iterator();
  read_all(iterator);
  const InputStatistics statistics = iterator.statistics();
  const StageStatistics map = stage_of(statistics, "map(3 calls)"), ahead = stage_of(statistics, "prefetch");
  CHECK(map.num_threads == 3);
  CHECK(map.buffer_size == 3);
  CHECK(map.work >= milliseconds(20));  // of 30, without what came behind the last reading
  CHECK(ahead.num_elements == 30);
  CHECK(ahead.buffer_size == 4);
  CHECK(ahead.mean_ready <= 4);
  CHECK(ahead.waiting.count() > 0);
  CHECK(ahead.waiting <= ahead.total);
  CHECK(statistics.slowest.starts_with("The slowest stage is map(3 calls): "));
  CHECK(statistics.slowest.find(" ms on each of 3 threads") != std::string::npos);
}

TEST_CASE("a repeated map has its threads from the first element of each round on", "[input][host]") {
  const Recorded recorded;
  auto iterator = Dataset::range(3).map(slow, {.num_parallel_calls = 4}).repeat().iterator();
  for (int i = 0; i < 4; ++i) iterator.next();
  const StageStatistics map = stage_of(iterator.statistics(), "map(4 calls)");
  CHECK(map.num_threads == 4);
  CHECK(map.work.count() > 0);
}

TEST_CASE("a map with an automatic number of calls has the threads that it uses", "[input][host]") {
  const Recorded recorded;
  auto iterator = Dataset::range(8).map(slow, {.num_parallel_calls = ParallelOptions::automatic}).iterator();
  for (int i = 0; i < 8; ++i) iterator.next();  // fewer than it takes to change their number
  const StageStatistics map = stage_of(iterator.statistics(), "map(");
  CHECK(map.num_threads == 1);
  CHECK(map.buffer_size == 1);
}

TEST_CASE("what threads have worked when their pass is dropped is counted", "[input][host]") {
  const Recorded recorded;
  std::atomic<int> num_done{0};
  const auto third_is_slow = [&](const Tensor& x) {
    if (x.item<std::int64_t>() >= 2) std::this_thread::sleep_for(milliseconds(20));
    ++num_done;
    return x;
  };
  auto iterator =
      Dataset::range(4).map(third_is_slow, {.num_parallel_calls = 4}).take(2).repeat(2).iterator();
  for (int i = 0; i < 2; ++i) iterator.next();
  while (num_done < 4) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(20));  // until the calls are measured
  iterator.next();                                // drops the first round
  CHECK(stage_of(iterator.statistics(), "map(4 calls)").work >= milliseconds(40));
}

TEST_CASE("the datasets of an interleave are counted together", "[input][host]") {
  const Recorded recorded;
  auto iterator = Dataset::range(6)
                      .interleave([](const Tensor&) { return Dataset::range(3).map(fast); }, 2, 1)
                      .iterator();
  read_all(iterator);
  const InputStatistics statistics = iterator.statistics();
  CHECK(stage_of(statistics, "interleave: map").num_elements == 18);
  CHECK(stage_of(statistics, "interleave(2").num_elements == 18);
  CHECK(statistics.stages.size() == 4);
}

TEST_CASE("a distributed pass has its steps as stages", "[input][host]") {
  const Recorded recorded;
  MirroredStrategy strategy(test::host_devices(2));
  auto iterator = strategy.distribute_dataset(Dataset::range(16).map(slow).batch(4)).iterator();
  read_all(iterator);
  InputStatistics statistics = iterator.statistics();
  CHECK(stage_of(statistics, "make a step").num_elements == 4);
  CHECK(stage_of(statistics, "steps made ahead").num_elements == 4);
  CHECK(stage_of(statistics, "batch(4)").num_elements == 4);
  CHECK(statistics.slowest.find("map(one call)") != std::string::npos);

  // A pass that goes on is measured from there.
  auto first = strategy.distribute_dataset(Dataset::range(16).batch(4)).iterator();
  first.next();
  auto second = strategy.distribute_dataset(Dataset::range(16).batch(4)).iterator();
  second.restore_state(first.save_state());
  read_all(second);
  statistics = second.statistics();
  CHECK(stage_of(statistics, "steps made ahead").num_elements == 3);
}

TEST_CASE("what a pass does after the recording is not counted", "[input][host]") {
  trace::start();
  auto iterator = Dataset::range(6).prefetch(2).iterator();
  for (int i = 0; i < 4; ++i) iterator.next();
  trace::stop();
  read_all(iterator);
  const StageStatistics stage = stage_of(iterator.statistics(), "prefetch");
  CHECK(stage.num_elements == 4);
  CHECK(stage.mean_ready <= 2);
}

TEST_CASE("without a recording nothing is counted", "[input][host]") {
  auto iterator = Dataset::range(3).iterator();
  CHECK_THROWS_MATCHES(iterator.statistics(), ContextError,
                       says("DatasetIterator::statistics: nothing was recorded", "Call trace::start before"));
  MirroredStrategy strategy(test::host_devices(2));
  auto steps = strategy.distribute_dataset(Dataset::range(4).batch(2)).iterator();
  CHECK_THROWS_MATCHES(steps.statistics(), ContextError, says("DistributedIterator::statistics"));
  const auto moved = std::move(iterator);
  CHECK_THROWS_AS(iterator.statistics(), ContextError);  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("the log says once that a shuffle's buffer is smaller than a file", "[input][host]") {
  const test::TemporaryDirectory directory;
  std::vector<std::filesystem::path> paths;
  for (const char* const name : {"a", "b"}) {
    paths.push_back(directory / name);
    std::ofstream(paths.back()) << "1\n2\n3\n4\n";
  }
  const auto told = [&](const auto& make) {
    return test::captured_stderr([&] {
      const auto dataset = make(Dataset::from_files(paths, readers::lines()));
      for (int pass = 0; pass < 2; ++pass)
        for (const auto& element : dataset) static_cast<void>(element);
    });
  };
  const std::string small = told([](const auto& lines) { return lines.map(fast).repeat(2).shuffle(3, 1); });
  CHECK(small.find("Dataset::shuffle: the buffer spans 3 elements of the files, and ") != std::string::npos);
  CHECK(small.find("one of 2 files, has more") == small.rfind("one of 2 files, has more"));
  CHECK(told([](const auto& lines) { return lines.shuffle(4, 1); }).empty());
  CHECK(told([](const auto& lines) { return lines.shuffle(3, 1).shuffle(9, 1); }).empty());
  CHECK(told([](const auto& lines) { return lines.batch(2).shuffle(1, 1); }).empty());
  CHECK(told([](const auto& lines) { return lines; }).empty());
  // Of a shard, and behind what is skipped, the buffer spans more of the files' elements than it has.
  CHECK(told([](const auto& lines) { return lines.shard(2, 0).shuffle(3, 1); }).empty());
  CHECK(told([](const auto& lines) {
          return lines.shard(2, 0).shuffle(1, 1);
        }).find("the buffer spans 2 elements of the files, and ") != std::string::npos);
  CHECK(told([](const auto& lines) { return lines.skip(1).shuffle(3, 1); }).empty());
  CHECK(told([](const auto& lines) {
          return lines.skip(1).shuffle(2, 1);
        }).find("the buffer spans 3 elements of the files, and ") != std::string::npos);
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  CHECK(told([](const auto& lines) { return lines.skip(kAll).shuffle(3, 1); }).empty());
  paths.pop_back();
  CHECK(told([](const auto& lines) { return lines.shuffle(3, 1); }).empty());
}

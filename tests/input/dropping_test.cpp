// Dropping an iterator: how long it takes, and what it leaves.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/input/dataset.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "input/pipeline/stopping.hpp"
#include "support/input.hpp"

using namespace lockstep;
using test::components;
using test::flat_elements;
using test::host_devices;
using test::sequence;
using test::Values;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

bool is_stopped() { return detail::current_stop_token().stop_requested(); }

/// A function that returns when its thread has been stopped, and counts the calls after that.
struct Gate {
  std::atomic<bool> is_entered = false;
  std::atomic<int> num_late = 0;

  void pass() {
    if (is_stopped()) ++num_late;
    is_entered = true;
    while (!is_stopped()) std::this_thread::yield();
  }
};

/// Waits for it to come true, but not forever.
bool comes(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition())
    if (std::chrono::steady_clock::now() > limit) return false;
  return true;
}

/// Drops an iterator over what is made of elements of the gate's, after a first step that needs none, while
/// the second is made.
void check_dropped(const std::string& name,
                   const std::function<TypedDataset<Tensor>(const TypedDataset<Tensor>&)>& transform,
                   const ParallelOptions& options = {}) {
  INFO(name);
  Gate gate;
  const auto gated = Dataset::range(10'000).map(
      [&gate](const Tensor& x) {
        gate.pass();
        return x;
      },
      options);
  MirroredStrategy strategy(host_devices(1));
  {
    const auto dist = strategy.distribute_dataset(transform(gated));
    auto iterator = dist.iterator();
    iterator.next();
    REQUIRE(comes([&] { return gate.is_entered.load(); }));
  }
  CHECK(gate.num_late <= options.num_parallel_calls);  // one that was about to be called
}

}  // namespace

TEST_CASE("dropping an iterator waits for one call of a function, whatever is made of it", "[input][host]") {
  using Data = TypedDataset<Tensor>;
  const auto first = Dataset::range(1);
  const auto same = [](const Tensor& x) { return x; };
  const std::vector<std::pair<std::string, std::function<Data(const Data&)>>> transforms{
      {"map", [&](const Data& d) { return first.batch(1).concatenate(d.map(same).batch(9)); }},
      {"shuffle", [&](const Data& d) { return first.concatenate(d.shuffle(1000, 1)).batch(1); }},
      {"batch", [&](const Data& d) { return first.batch(1).concatenate(d.batch(1000)); }},
      {"batches of batches",
       [&](const Data& d) { return first.batch(1).batch(1).concatenate(d.batch(10).batch(1000)); }},
      {"filter",
       [&](const Data& d) {
         return first.concatenate(d.filter([](const Tensor& x) { return x.item<std::int64_t>() < 0; }))
             .batch(1);
       }},
      {"skip", [&](const Data& d) { return first.concatenate(d.skip(9'000)).batch(1); }},
      {"shard", [&](const Data& d) { return first.concatenate(d.shard(1000, 999)).batch(1); }},
      {"repeat",
       [&](const Data& d) { return first.concatenate(d.take(0).repeat().concatenate(d)).batch(1); }},
      {"zip",
       [&](const Data& d) {
         const auto sum = [](const Tensor& x, const Tensor& y) { return x + y; };
         return first.concatenate(Dataset::zip(d, d).map(sum).shuffle(1000, 1)).batch(1);
       }},
      {"interleave",
       [&](const Data& d) {
         return first
             .concatenate(Dataset::range(3).interleave([d](const Tensor&) { return d.skip(9'000); }, 2))
             .batch(1);
       }},
      {"parallel interleave",
       [&](const Data& d) {
         return first
             .concatenate(Dataset::range(3).interleave([d](const Tensor&) { return d.shuffle(1000, 1); }, 2,
                                                       1, {.num_parallel_calls = 2, .deterministic = false}))
             .batch(1);
       }},
      {"cache", [&](const Data& d) { return first.concatenate(d.cache().shuffle(1000, 1)).batch(1); }},
      {"prefetch", [&](const Data& d) { return first.concatenate(d.shuffle(1000, 1).prefetch(3)).batch(1); }},
      {"parallel map",
       [&](const Data& d) {
         return first.concatenate(d.shuffle(1000, 1).map(same, {.num_parallel_calls = 2})).batch(1);
       }},
      {"generator",
       [&](const Data& d) {
         const auto make = [d] {
           return [pass = std::shared_ptr(d.pipeline()->open())]() -> std::optional<Tensor> {
             const auto element = pass->next();
             return element ? std::optional(element->at(0)) : std::nullopt;
           };
         };
         return first.concatenate(Data(Dataset::from_generator(make)).shuffle(1000, 1)).batch(1);
       }},
  };
  for (const auto& [name, transform] : transforms) check_dropped(name, transform);
  check_dropped("of a parallel map",
                [&](const Data& d) { return first.concatenate(d.shuffle(1000, 1)).batch(1); },
                {.num_parallel_calls = 3});
}

TEST_CASE("dropping an iterator does not go on with what has no functions", "[input][host]") {
  MirroredStrategy strategy(host_devices(1));
  const auto endless = Dataset::range(kMost);
  const auto first = Dataset::range(1);
  for (const TypedDataset<Tensor>& data :
       {first.batch(1).concatenate(endless.batch(kMost)), first.concatenate(endless.skip(kMost - 1)).batch(1),
        first.concatenate(endless.shuffle(kMost, 1)).batch(1),
        first.concatenate(endless.cache().skip(kMost - 1)).batch(1)}) {
    auto iterator = strategy.distribute_dataset(data).iterator();
    CHECK(components(iterator.next()) == std::vector<Values>{{0}});
  }
}

TEST_CASE("all threads of an iterator are stopped together, and not one after the other", "[input][host]") {
  const int buffer = GENERATE(0, 1);
  std::atomic<bool> is_armed = false, all_stopped = true;
  std::atomic<int> num_calls = 0, num_entered = 0, num_stopped = 0;
  // Once armed, calls return when three have been stopped.
  const auto waits = [&](const Tensor& x) {
    ++num_calls;
    if (!is_armed) return x;
    ++num_entered;
    while (!is_stopped()) std::this_thread::yield();
    ++num_stopped;
    if (!comes([&] { return num_stopped >= 3; })) all_stopped = false;
    return x;
  };
  const auto numbers = Dataset::range(1000).map(waits).prefetch(1);
  const auto triples =
      Dataset::zip(numbers, numbers, Dataset::range(1000).map(waits, {.num_parallel_calls = 2}));
  MirroredStrategy strategy(host_devices(1));
  {
    const auto dist = strategy.distribute_dataset(triples.batch(1), {.per_replica_buffer_size = buffer});
    auto iterator = dist.iterator();
    iterator.next();
    // Of 1 step, or 3, each element, and one more in each prefetch, two in the map.
    REQUIRE(comes([&] { return num_calls == (buffer == 0 ? 3 + 4 : 9 + 4); }));
    is_armed = true;
    iterator.next();
    REQUIRE(comes([&] { return num_entered == 3; }));
  }
  CHECK(all_stopped);
}

TEST_CASE("a pass that is stopped has not ended: a cache keeps nothing of it", "[input][host]") {
  const auto numbers = Dataset::range(5);
  const auto same = [](const Tensor& x) { return x; };
  for (const auto& input :
       {numbers.prefetch(1), numbers.prefetch(1).prefetch(1), numbers.map(same, {.num_parallel_calls = 2}),
        numbers.interleave([](const Tensor& x) { return Dataset::from_tensor_slices(x.reshape({1})); }, 2, 1,
                           {.num_parallel_calls = 2})}) {
    const auto cache = input.cache();
    std::stop_source owner;
    {
      const detail::StopScope scope(owner.get_token());
      auto pass = cache.pipeline()->open();
      CHECK(pass->next());
      owner.request_stop();
      CHECK_THROWS_AS(
          [&] {
            while (pass->next()) {
            }
          }(),
          detail::Stopped);
    }
    CHECK(flat_elements(cache) == sequence(0, 5));
  }
}

TEST_CASE("an iterator is dropped by a function that a thread of its own calls", "[input][host]") {
  using Data = TypedDataset<Tensor>;
  const auto check = [](const std::string& name, const ParallelOptions& options,
                        const std::function<Data(const Data&)>& transform) {
    INFO(name);
    std::atomic<bool> is_given = false, is_dropped = false;
    std::optional<DatasetIterator<Tensor>> iterator;
    auto kept = std::make_shared<int>();
    const std::weak_ptr<int> function = kept;
    {
      const auto drops = [&, kept](const Tensor& x) {
        if (x.item<std::int64_t>() != 1) return x;
        while (!is_given) std::this_thread::yield();
        iterator.reset();
        is_dropped = true;
        return x;
      };
      iterator.emplace(transform(Dataset::range(10).map(drops, options)).iterator());
    }
    kept.reset();
    iterator->next();
    is_given = true;
    REQUIRE(comes([&] { return is_dropped.load(); }));
    CHECK(comes([&] { return function.expired(); }));  // its threads have ended
  };
  const auto same = [](const Data& data) { return data; };
  const auto ahead = [](const Data& data) { return data.prefetch(2); };
  check("prefetch", {}, ahead);
  check("parallel map", {.num_parallel_calls = 2}, same);
  check("a parallel map's prefetch", {.num_parallel_calls = 2}, ahead);
}

#include "input/iterators/parallel_map_iterator.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::flat_elements;
using test::says;
using test::sequence;
using test::Values;

namespace parallel_map_pass_test {
/// Later elements are often ready first.
Tensor uneven(const Tensor& x) {
  if (x.item<std::int64_t>() % 3 == 0)
    for (int i = 0; i < 10; ++i) std::this_thread::yield();
  return x + 1;
}
}  // namespace parallel_map_pass_test

using parallel_map_pass_test::uneven;

TEST_CASE("a parallel map keeps the order", "[input][host]") {
  const std::int64_t num_elements = GENERATE(0, 1, 2, 61);
  const int num_calls = GENERATE(2, 3, 7);
  const auto mapped = Dataset::range(num_elements).map(uneven, {.num_parallel_calls = num_calls});
  static_assert(std::is_same_v<decltype(mapped), const TypedDataset<Tensor>>);
  for (int pass = 0; pass < 2; ++pass) CHECK(flat_elements(mapped) == sequence(1, num_elements + 1));
}

TEST_CASE("a parallel map that need not keep the order gives every element once", "[input][host]") {
  const std::int64_t num_elements = GENERATE(0, 1, 2, 61);
  Values values = flat_elements(
      Dataset::range(num_elements).map(uneven, {.num_parallel_calls = 4, .deterministic = false}));
  std::sort(values.begin(), values.end());
  CHECK(values == sequence(1, num_elements + 1));
}

TEST_CASE("elements that are ready first come first, where order is not kept", "[input][host]") {
  std::promise<void> second_was_taken;
  const std::shared_future<void> waits = second_was_taken.get_future().share();
  const auto mapped = Dataset::range(2).map(
      [&](const Tensor& x) {
        if (x.item<std::int64_t>() == 0) waits.wait();
        return x;
      },
      {.num_parallel_calls = 2, .deterministic = false});
  auto pass = mapped.pipeline()->open();
  CHECK(pass->next()->at(0).item<std::int64_t>() == 1);
  second_was_taken.set_value();
  CHECK(all_elements(*pass) == std::vector<Values>{{0}});
}

TEST_CASE("a parallel map calls as often at a time as told, on its own threads, not further ahead",
          "[input][host]") {
  constexpr int kCalls = 3;
  std::atomic<int> num_now = 0, num_calls = 0, num_asked = 0, most_ahead = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto mapped = Dataset::range(1000).map(
      [&](const Tensor& x) {
        ++num_now;
        const int num_ahead = ++num_calls - num_asked;
        if (x.item<std::int64_t>() < kCalls)
          while (num_now < kCalls) std::this_thread::yield();  // all at a time, or never
        const std::scoped_lock lock(mutex);
        most_ahead = std::max<int>(most_ahead, num_ahead);
        threads.insert(std::this_thread::get_id());
        return x;
      },
      {.num_parallel_calls = kCalls});
  auto pass = mapped.pipeline()->open();
  CHECK(num_calls == 0);
  for (int i = 1; i <= 100; ++i) {
    num_asked = i;
    CHECK(pass->next());
    while (num_calls < i + kCalls) std::this_thread::yield();  // the threads go as far as they may
  }
  pass.reset();
  CHECK(most_ahead <= kCalls);
  CHECK(threads.size() <= kCalls);
  CHECK(threads.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("exceptions of a parallel map come in order, with their index", "[input][host]") {
  const auto mapped = Dataset::range(20).map(
      [](const Tensor& x) {
        if (x.item<std::int64_t>() % 7 == 3) throw std::runtime_error("sevens");
        return uneven(x);
      },
      {.num_parallel_calls = 4});
  auto pass = mapped.pipeline()->open();
  for (std::int64_t i = 0; i < 20; ++i) {
    if (i % 7 == 3)
      CHECK_THROWS_MATCHES(pass->next(), Error,
                           says("Dataset::map: element " + std::to_string(i) + ": sevens"));
    else
      CHECK(pass->next()->at(0).item<std::int64_t>() == i + 1);
  }
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("exceptions of a parallel map's input come at their place", "[input][host]") {
  const bool deterministic = GENERATE(true, false);
  const auto mapped = Dataset::range(3)
                          .map([](const Tensor& x) {
                            if (x.item<std::int64_t>() == 1) throw std::runtime_error("first map");
                            return x;
                          })
                          .map(uneven, {.num_parallel_calls = 2, .deterministic = deterministic});
  int num_errors = 0;
  Values values;
  for (auto pass = mapped.pipeline()->open();;) try {
      const auto element = pass->next();
      if (!element) break;
      values.push_back(element->at(0).item<std::int64_t>());
    } catch (const Error& error) {
      CHECK(std::string(error.what()) == "Dataset::map: element 1: first map");
      ++num_errors;
    }
  std::sort(values.begin(), values.end());
  CHECK(values == Values{1, 3});
  CHECK(num_errors == 1);
}

TEST_CASE("a parallel map can be dropped at any time", "[input][host]") {
  const ParallelOptions options{.num_parallel_calls = 3, .deterministic = GENERATE(true, false)};
  const auto none = [](const Tensor&) { return false; };
  for (int round = 0; round < 20; ++round) {
    const auto numbers = Dataset::range(100).repeat();
    auto pass = numbers.map(uneven, options).prefetch(2).map(uneven, options).pipeline()->open();
    for (int i = 0; i < round % 5; ++i) CHECK(pass->next());
    pass.reset();
    // Nothing more ever comes, though the threads look for it.
    pass =
        numbers.take(1).concatenate(numbers.filter(none).prefetch(1)).map(uneven, options).pipeline()->open();
    CHECK(pass->next());
  }
}

TEST_CASE("a map with an automatic number of calls gets the threads that it lacks, and keeps order and state",
          "[input][host]") {
  const ParallelOptions automatic{.num_parallel_calls = ParallelOptions::automatic};
  constexpr std::int64_t kMost = 3, kElements = 200;
  detail::ParallelMapIterator* map = nullptr;
  std::atomic<bool> is_slow = true;
  const auto fn = [&](detail::FlatElement&& element) {
    // While it is slow, a call ends only when `next` lacks threads, or there are as many as there may be.
    while (is_slow && map->num_threads() < kMost && !map->is_short()) std::this_thread::yield();
    element[0] = element[0] + 1;
    return std::move(element);
  };
  const detail::PipelineHandle range = Dataset::range(kElements).pipeline();
  const auto key = [&] { return detail::IterationKey::next(range->counts); };
  detail::ParallelMapIterator pass(range, key(), fn, automatic, "a test", kMost);
  map = &pass;
  std::int64_t given = 0;
  CHECK(pass.num_threads() == 1);
  for (; pass.num_threads() < kMost; ++given) {
    REQUIRE(given < 3 * detail::AutomaticThreads::kWindow);
    CHECK(pass.next()->at(0).item<std::int64_t>() == given + 1);
  }
  is_slow = false;
  detail::PassState saved;
  pass.transfer(saved);
  const std::string bytes = saved.take();
  detail::PassState read(bytes);
  detail::ParallelMapIterator restored(range, key(), fn, automatic, "a test", 1);
  restored.transfer(read);
  read.expect_end();
  for (std::int64_t i = given; i < kElements; ++i) {
    CHECK(pass.next()->at(0).item<std::int64_t>() == i + 1);
    CHECK(restored.next()->at(0).item<std::int64_t>() == i + 1);
  }
  CHECK_FALSE(pass.next());
  CHECK_FALSE(restored.next());
  CHECK(restored.num_threads() == 1);
}

TEST_CASE("a map with an automatic number of calls gives what one thread gives", "[input][host]") {
  const bool deterministic = GENERATE(true, false);
  Values values = flat_elements(Dataset::range(300).map(
      uneven, {.num_parallel_calls = ParallelOptions::automatic, .deterministic = deterministic}));
  if (!deterministic) std::sort(values.begin(), values.end());
  CHECK(values == sequence(1, 301));
}

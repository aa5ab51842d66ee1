#include "input/iterators/prefetch_iterator.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <unistd.h>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "input/pipeline/stopping.hpp"
#include "support/asleep.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::flat_elements;
using test::says;
using test::sequence;
using test::Values;

TEST_CASE("prefetch changes no element", "[input][host]") {
  const std::int64_t num_elements = GENERATE(0, 1, 7, 64), buffer = GENERATE(1, 2, 5, 100);
  const auto numbers = Dataset::range(num_elements).prefetch(buffer);
  static_assert(std::is_same_v<decltype(numbers), const TypedDataset<Tensor>>);
  for (int pass = 0; pass < 2; ++pass) CHECK(flat_elements(numbers) == sequence(0, num_elements));
  CHECK(flat_elements(Dataset(numbers).batch(3).prefetch(buffer)) == sequence(0, num_elements));
}

TEST_CASE("a prefetch gives nothing ever after its end", "[input][host]") {
  auto pass = Dataset::range(1).prefetch(2).pipeline()->open();
  CHECK(pass->next());
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("prefetch reads on a thread of its own, from the first element on, as far as its buffer",
          "[input][host]") {
  constexpr int kBuffer = 3;
  std::atomic<int> num_calls = 0, num_asked = 0, most_ahead = 0;
  std::atomic<bool> is_elsewhere = true;
  const auto caller = std::this_thread::get_id();
  const auto numbers = Dataset::range(100)
                           .map([&](const Tensor& x) {
                             is_elsewhere = is_elsewhere && std::this_thread::get_id() != caller;
                             most_ahead = std::max<int>(most_ahead, ++num_calls - num_asked);
                             return x;
                           })
                           .prefetch(kBuffer);
  auto pass = numbers.pipeline()->open();
  CHECK(num_calls == 0);
  for (int i = 1; i <= 90; ++i) {
    num_asked = i;
    CHECK(pass->next());
    while (num_calls < i + kBuffer) std::this_thread::yield();  // the thread fills its buffer
  }
  CHECK(most_ahead == kBuffer);
  CHECK(is_elsewhere);
}

TEST_CASE("a prefetched exception comes at its element", "[input][host]") {
  const auto numbers = Dataset::range(5)
                           .map([](const Tensor& x) {
                             if (x.item<std::int64_t>() == 2) throw std::runtime_error("bad");
                             return x;
                           })
                           .prefetch(4);
  auto pass = numbers.pipeline()->open();
  CHECK(pass->next());
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 2: bad"));
  CHECK(all_elements(*pass) == std::vector<Values>{{3}, {4}});
}

TEST_CASE("a prefetch whose input cannot be opened says so and ends", "[input][host]") {
  detail::PrefetchIterator<detail::FlatElement> pass(
      []() -> std::unique_ptr<detail::Iterator<detail::FlatElement>> { throw NotFound("nowhere"); }, 2);
  CHECK_THROWS_MATCHES(pass.next(), NotFound, says("nowhere"));
  CHECK_FALSE(pass.next());
}

TEST_CASE("a prefetch can be dropped at any time, and its dataset before it", "[input][host]") {
  const auto open = [](int kind) {
    const auto numbers = Dataset::range(1000).repeat();
    const auto none = [](const Tensor&) { return false; };
    switch (kind) {
      case 0: return numbers.prefetch(2).pipeline()->open();
      case 1: return numbers.prefetch(1).prefetch(1).pipeline()->open();
      case 2: return numbers.prefetch(1).batch(2).prefetch(3).shuffle(4).prefetch(1).pipeline()->open();
      default:
        return numbers.take(1).concatenate(numbers.filter(none)).prefetch(1).prefetch(2).pipeline()->open();
    }
  };
  for (int kind = 0; kind < 4; ++kind)
    for (int round = 0; round < 20; ++round) {
      auto pass = open(kind);
      const int num_elements = kind == 3 ? round % 2 : round % 5;
      for (int i = 0; i < num_elements; ++i) CHECK(pass->next());
      pass.reset();
    }
}

TEST_CASE("dropping a prefetch waits for the function that its thread is in", "[input][host]") {
  std::atomic<bool> entered = false, left = false;
  const pid_t caller = ::gettid();
  auto pass = Dataset::range(9)
                  .map([&](const Tensor& x) {
                    if (x.item<std::int64_t>() == 1) {
                      entered = true;
                      test::wait_until_asleep(caller);
                      left = true;
                    }
                    return x;
                  })
                  .prefetch(1)
                  .pipeline()
                  ->open();
  CHECK(pass->next());
  while (!entered) std::this_thread::yield();
  pass.reset();  // sleeps until the function has returned
  CHECK(left);
}

TEST_CASE("many prefetches at a time keep their elements apart", "[input][host]") {
  const auto numbers = Dataset::range(200).prefetch(3).batch(7).prefetch(2);
  std::vector<std::future<Values>> passes;
  for (int i = 0; i < 8; ++i)
    passes.push_back(std::async(std::launch::async, [&] { return flat_elements(numbers); }));
  for (auto& pass : passes) CHECK(pass.get() == sequence(0, 200));
}

// Iterators in a fork of the process that made them.
#include <optional>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/child_process.hpp"
#include "support/input.hpp"

using namespace lockstep;
using test::components;
using test::host_devices;
using test::in_child;
using test::Values;

TEST_CASE("an iterator cannot be used in a fork of its process, but dropped", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto same = [](const Tensor& x) { return x; };
  const auto data = Dataset::range(100).map(same, {.num_parallel_calls = 2}).batch(2).prefetch(2);
  std::optional iterator(
      strategy.distribute_dataset(data, {.per_replica_buffer_size = GENERATE(0, 1, 3)}).iterator());
  if (GENERATE(true, false)) iterator->next();
  CHECK(in_child([&] {
          try {
            iterator->next();
          } catch (const ContextError& error) {
            const std::string what = error.what();
            return what.find("DistributedIterator::next: this process is a fork") == 0 &&
                           what.find("Make iterators after the fork") != std::string::npos
                       ? 3
                       : 4;
          }
          return 5;
        }) == 3);
  CHECK(in_child([&] {
          try {
            static_cast<void>(iterator->save_state());
          } catch (const ContextError& error) {
            return std::string(error.what()).find("save_state: this process is a fork") == 0 ? 3 : 4;
          }
          return 5;
        }) == 3);
  CHECK(in_child([&] {
          iterator.reset();
          return 3;
        }) == 3);
  while (iterator->next_optional()) {
  }
}

TEST_CASE("a fork makes iterators of its own", "[input][host]") {
  MirroredStrategy strategy(host_devices(1));
  const auto dist = strategy.distribute_dataset(Dataset::range(6).batch(3).prefetch(1));
  dist.iterator().next();
  CHECK(in_child([&] {
          auto iterator = dist.iterator();
          return components(iterator.next()) == std::vector<Values>{{0, 1, 2}} ? 3 : 4;
        }) == 3);
}

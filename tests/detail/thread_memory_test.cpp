// A thread that has started is joined, also where memory runs out before it is kept.
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string_view>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/failing_memory.hpp"
#include "support/temporary_directory.hpp"

namespace ls = lockstep;
using ls::test::FailingMemory;
using ls::test::Memory;

namespace {

/// Lets the n-th request of `act` to the heap fail. @return whether there was one.
bool fails(std::int64_t n, const std::function<void()>& act) {
  const FailingMemory failing(Memory::heap, n);
  try {
    act();
  } catch (const std::bad_alloc&) {
  } catch (const ls::OutOfMemory&) {
  } catch (const ls::Error& error) {  // a dataset's, which names the element
    if (std::string_view(error.what()).find("std::bad_alloc") == std::string_view::npos) throw;
  }
  return FailingMemory::has_failed();
}

}  // namespace

TEST_CASE("an asynchronous save that finds no memory is followed by one that does",
          "[memory][checkpoint][host]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const ls::Variable variable = strategy.make_variable(ls::Tensor::scalar(1.0f));
  ls::Checkpoint checkpoint({{"v", variable}});
  std::int64_t n = 0;
  for (bool has_failed = true; has_failed;) {
    const ls::test::TemporaryDirectory directory;
    ls::CheckpointManager manager(checkpoint, directory.path(), {.asynchronous = true});
    has_failed = fails(++n, [&] {
      manager.save(1);
      manager.wait();
    });
    manager.save(2);
    manager.wait();
    REQUIRE(manager.latest() == directory / "checkpoint-2.safetensors");
  }
  CHECK(n > 10);
}

TEST_CASE("a first run that finds no memory is followed by one that does", "[memory][strategy][host]") {
  std::int64_t n = 0;
  for (bool has_failed = true; has_failed;) {
    ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2", "CPU:3"});
    has_failed = fails(++n, [&] { strategy.run([] {}); });
    const auto ids = strategy.run([] { return ls::get_replica_context()->replica_id_in_sync_group(); });
    REQUIRE(ids[3] == 3);
  }
  CHECK(n > 3);
}

TEST_CASE("elements that threads make have their places, or an error in them, where memory runs out",
          "[memory][input][host]") {
  std::int64_t n = 0;
  for (bool has_failed = true; has_failed;) {
    auto dataset = ls::Dataset::range(40)
                       .map([](const ls::Tensor& x) { return x.clone(); }, {.num_parallel_calls = 3})
                       .prefetch(8);
    auto iterator = dataset.iterator();
    std::int64_t num_elements = 0;
    const auto take_all = [&] {
      while (iterator.next_optional()) ++num_elements;
    };
    has_failed = fails(++n, take_all);
    while (iterator.next_optional()) ++num_elements;
    REQUIRE((num_elements >= 39 || num_elements == 0));  // none: the input could not be opened
  }
  CHECK(n > 100);
}

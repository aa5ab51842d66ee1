// A restore that fails leaves the iterator, its dataset's caches and seeds, and a checkpoint as they were,
// and a reader without memory for a record keeps those before it.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "input/state/sealed_state.hpp"
#include "support/failing_memory.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::FailingMemory;
using test::host_devices;
using test::says;
using test::TemporaryDirectory;

namespace {

using Parts = std::vector<Tensor>;

Tensor number(std::int64_t value) { return Tensor::scalar(value, Device()); }

/// Elements whose lengths the first one shows, in an order of which nobody gave the seed, kept in memory, and
/// read by threads: 0 to 5, twice.
struct Source {
  std::shared_ptr<int> num_made = std::make_shared<int>(0);

  TypedDataset<Tensor> dataset() const {
    return Dataset::from_generator([num_made = num_made] {
             return [num_made, next = 0]() mutable -> std::optional<Parts> {
               ++*num_made;
               return next < 6 ? std::optional(Parts{number(next++), number(7)}) : std::nullopt;
             };
           })
        .shuffle(3)
        .cache()
        .repeat(2)
        .interleave(
            [](const Parts& parts) { return Dataset::from_tensor_slices(parts[0].reshape({1})).shuffle(2); },
            2, 1, {.num_parallel_calls = 2})
        .take(100);
  }
};

IteratorState part_of(const IteratorState& state, std::size_t size_bytes) {
  return detail::seal(detail::unseal(state).substr(0, size_bytes));
}

std::string text_of(const Tensor& element) { return std::to_string(element.item<std::int64_t>()) + ' '; }
std::string text_of(const PerReplica<Tensor>& step) {
  std::string text;
  for (const auto& part : test::components(step))
    for (const std::int64_t row : part) text += std::to_string(row) + ' ';
  return text;
}

template <class Iterator>
std::string rest_of(Iterator& iterator) {
  std::string rest;
  while (const auto value = iterator.next_optional()) rest += text_of(*value);
  return rest;
}

/// Lets memory run out at each request of a call in turn, until there is none that fails. `check` is called
/// after each call that throws, `undo` after one that can do without the memory.
void run_out_in(const std::function<void()>& call, const std::function<void()>& check,
                const std::function<void()>& undo) {
  for (std::int64_t n = 1;; ++n) {
    bool has_thrown = false, has_failed = false;
    {
      const FailingMemory failing(test::Memory::heap, n);
      try {
        call();
      } catch (const std::exception&) {
        has_thrown = true;
      }
      has_failed = FailingMemory::has_failed();
    }
    if (!has_failed) {
      CHECK_FALSE(has_thrown);
      CHECK(n > 20);
      return;
    }
    (has_thrown ? check : undo)();
  }
}

}  // namespace

TEST_CASE("without memory for a state a pass, its dataset's cache and its seed stay", "[input][host]") {
  const Source source, other;
  auto first = source.dataset().iterator();
  for (int i = 0; i < 8; ++i) first.next();  // in the second round, which has the cache
  const IteratorState state = first.save_state();
  const std::string rest = rest_of(first);

  const TypedDataset<Tensor> dataset = other.dataset();
  auto second = dataset.iterator();
  const IteratorState before = second.save_state();
  run_out_in([&] { second.restore_state(state); }, [&] { REQUIRE((second.save_state() == before)); },
             [] { FAIL("all memory is needed"); });
  CHECK(*other.num_made == 0);
  CHECK(rest_of(second) == rest);
  // Only now the cache is full.
  auto third = dataset.iterator();
  CHECK_FALSE(rest_of(third).empty());
  CHECK(*other.num_made == 0);
}

TEST_CASE("a state of which a part is missing leaves a pass, the cache and the seed", "[input][host]") {
  const Source source, other;
  auto first = source.dataset().iterator();
  for (int i = 0; i < 8; ++i) first.next();
  const IteratorState state = first.save_state();

  const TypedDataset<Tensor> dataset = other.dataset();
  auto second = dataset.iterator();
  const IteratorState before = second.save_state();
  for (std::size_t size = 0; size < detail::unseal(state).size(); ++size) {
    REQUIRE_THROWS_AS(second.restore_state(part_of(state, size)), InvalidArgument);
    REQUIRE((second.save_state() == before));
  }
  IteratorState longer = detail::seal(std::string(detail::unseal(state)) + '\0');
  CHECK_THROWS_MATCHES(second.restore_state(longer), InvalidArgument, says("there is more after the last"));
  CHECK((second.save_state() == before));
  CHECK_FALSE(rest_of(second).empty());
  CHECK(*other.num_made == 7);  // the cache had nothing
}

TEST_CASE("elements may show other lengths while a state that is refused has its own", "[input][host]") {
  const auto dataset = [](std::int64_t length) {
    return Dataset::range(9).map(
        [length](const Tensor& x) { return Parts(static_cast<std::size_t>(length), x); });
  };
  auto of_two = dataset(2).iterator();
  of_two.next();
  const IteratorState state = of_two.save_state();
  const auto of_three = dataset(3);
  auto iterator = of_three.iterator();
  CHECK_THROWS_AS(iterator.restore_state(part_of(state, detail::unseal(state).size() - 1)), InvalidArgument);
  CHECK(iterator.next().size() == 3);
  CHECK_THROWS_MATCHES(iterator.restore_state(state), InvalidArgument, says("the first one had"));
  CHECK(iterator.next()[0].item<std::int64_t>() == 1);
  // What a state has shown binds the elements, as those of the passes that saved it.
  const auto unseen = dataset(3);
  auto restored = unseen.iterator();
  restored.restore_state(state);
  CHECK_THROWS_AS(restored.next(), InvalidArgument);
}

TEST_CASE("elements may have other lengths than a cache's file if a state that opens it is refused",
          "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto dataset = [&](std::int64_t length) {
    return Dataset::range(3)
        .map([length](const Tensor& x) { return Parts(static_cast<std::size_t>(length), x); })
        .cache(directory / "cache");
  };
  const auto of_two = dataset(2);
  auto writing = of_two.iterator();
  while (writing.next_optional()) {
  }
  auto reading = of_two.iterator();
  reading.next();
  const IteratorState state = reading.save_state();
  const auto of_three = dataset(3);
  auto iterator = of_three.iterator();
  CHECK_THROWS_AS(iterator.restore_state(part_of(state, detail::unseal(state).size() - 1)), InvalidArgument);
  std::filesystem::remove(directory / "cache");
  CHECK(iterator.next().size() == 3);
}

TEST_CASE("CSV records before one for which there is no memory are given first", "[input][csv][host]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "records";
  std::ofstream(path) << "1,a\n2," << std::string(1'000, 'b') << '\n';
  const auto reader = readers::csv({.columns = {DType::i64, readers::CsvColumn::text()}});
  const auto warm = reader(path);
  REQUIRE(warm.next_rows(2)->num_rows == 2);  // what the process makes once
  int num_kept = 0;
  bool has_failed = true;
  for (std::int64_t n = 1; has_failed; ++n) {
    const auto records = reader(path);
    std::optional<detail::RowBlock> rows;
    {
      const FailingMemory failing(test::Memory::heap, n);
      try {
        rows = records.next_rows(2);
      } catch (const std::exception&) {  // there was no memory for the first record, or for the block
      }
      has_failed = FailingMemory::has_failed();
    }
    if (!rows || rows->num_rows == 2) continue;
    REQUIRE(rows->num_rows == 1);
    CHECK_THROWS_AS(records.next_rows(2), std::bad_alloc);
    ++num_kept;
  }
  CHECK(num_kept > 0);
}

TEST_CASE("a file that is missing leaves a pass, the cache and the seed", "[input][host]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "lines";
  std::ofstream(path) << "1\n2\n3\n4\n";
  const auto dataset = [&path] {
    return Dataset::from_files({path}, readers::lines())
        .map([](const Tensor& line) { return number(std::stoll(readers::text(line))); })
        .shuffle(2)
        .cache()
        .repeat(2);
  };
  auto first = dataset().iterator();
  first.next();
  const IteratorState state = first.save_state();
  const auto other = dataset();
  auto second = other.iterator();
  const IteratorState before = second.save_state();
  std::filesystem::rename(path, directory / "elsewhere");
  CHECK_THROWS_AS(second.restore_state(state), NotFound);
  CHECK((second.save_state() == before));
  std::filesystem::rename(directory / "elsewhere", path);
  second.restore_state(state);
  CHECK(rest_of(second) == rest_of(first));
}

TEST_CASE("without memory a checkpoint's iterators, their datasets and its variables stay",
          "[checkpoint][input][host]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "c.safetensors";
  MirroredStrategy strategy(host_devices(2));
  const auto dataset = [&](const Source& source) {
    return strategy.distribute_dataset(source.dataset().batch(2), {.per_replica_buffer_size = 0});
  };
  Variable w = strategy.make_variable(Tensor::scalar(1.0f), {.name = "w"});
  const Source source, other;
  std::string rest;
  {
    auto steps = dataset(source).iterator();
    auto numbers = Dataset::range(9).shuffle(9).iterator();
    Checkpoint checkpoint({{"w", w}});
    checkpoint.add("steps", steps).add("numbers", numbers);
    for (int i = 0; i < 4; ++i) steps.next();
    numbers.next();
    checkpoint.save(path);
    rest = rest_of(steps) + rest_of(numbers);
  }
  w.assign(2.0f);
  const auto others = dataset(other);
  auto steps = others.iterator();
  auto numbers = Dataset::range(9).shuffle(9).iterator();
  Checkpoint checkpoint({{"w", w}});
  checkpoint.add("steps", steps).add("numbers", numbers);
  IteratorState steps_before = steps.save_state(), numbers_before = numbers.save_state();
  const auto check = [&] {
    REQUIRE((steps.save_state() == steps_before));
    REQUIRE((numbers.save_state() == numbers_before));
    REQUIRE(w.value().item<float>() == 2);
  };
  run_out_in([&] { checkpoint.restore(path); }, check,
             [&] {
               w.assign(2.0f);
               steps.restore_state(steps_before);
               numbers.restore_state(numbers_before);
               steps_before = steps.save_state();  // it knows the elements' lengths now
             });
  CHECK(w.value().item<float>() == 1);
  CHECK(*other.num_made == 0);
  const std::string restored = rest_of(steps) + rest_of(numbers);
  CHECK(restored == rest);
  auto next = others.iterator();
  CHECK(next.epoch() == 1);
  CHECK_FALSE(rest_of(next).empty());
  CHECK(*other.num_made == 0);
}

// What saving and restoring read, and how large states are; orders that stay, and epochs.
#include <atomic>
#include <fstream>
#include <memory>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "input/resume/random_pipeline.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::flat_elements;
using test::says;
using test::Values;

namespace {

/// Numbers whose reading is counted.
TypedDataset<Tensor> counted(std::int64_t n, const std::shared_ptr<std::atomic<std::int64_t>>& num_read) {
  return Dataset::range(n).map([num_read](const Tensor& x) {
    ++*num_read;
    return x;
  });
}

template <class Iterator>
Values rest_of(Iterator& iterator) {
  Values rest;
  while (const auto element = iterator.next_optional())
    rest.push_back(element->template item<std::int64_t>());
  return rest;
}

}  // namespace

TEST_CASE("saving and restoring read no element", "[input][host]") {
  const auto num_read = std::make_shared<std::atomic<std::int64_t>>(0);
  const auto part = [](const Tensor& x) { return Dataset::range(x.item<std::int64_t>() % 4); };
  const auto numbers =
      counted(100, num_read).shuffle(20, 1).interleave(part, 5, 2).window(3, 2).unbatch().batch(4).unbatch();
  auto iterator = numbers.iterator();
  for (int i = 0; i < 30; ++i) iterator.next();
  const std::int64_t before = *num_read;
  const IteratorState state = iterator.save_state();
  CHECK(*num_read == before);
  auto restored = numbers.iterator();
  restored.restore_state(state);
  CHECK(*num_read == before);
  CHECK(rest_of(restored) == rest_of(iterator));
  CHECK(*num_read == 100 + 100 - before);
}

TEST_CASE("a generator is run again up to its place, a file's reader goes there", "[input][host]") {
  const test::TemporaryDirectory folder;
  test::write_number_files(folder.path());
  std::atomic<int> num_calls = 0, num_made = 0;
  const auto generated = Dataset::from_generator([&] {
    ++num_made;
    return [&num_calls, next = std::int64_t{0}]() mutable -> std::optional<Tensor> {
      ++num_calls;
      return next < 9 ? std::optional(Tensor::scalar(next++, Device())) : std::nullopt;
    };
  });
  auto iterator = generated.iterator();
  for (int i = 0; i < 4; ++i) iterator.next();
  auto restored = generated.iterator();
  restored.restore_state(iterator.save_state());
  CHECK(num_calls == 8);
  CHECK(num_made == 2);
  CHECK(rest_of(restored) == Values{4, 5, 6, 7, 8});

  // What is before the place is not looked at: here it would be a fault.
  const auto path = folder / "changed.csv";
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
  write("1\n2\n3\n4\n");
  const auto records = Dataset::from_files({path}, readers::csv({.columns = {DType::i64}}));
  auto reading = records.iterator();
  for (int i = 0; i < 2; ++i) reading.next();
  const IteratorState state = reading.save_state();
  write("1\n?\n3\n4\n");
  auto again = records.iterator();
  CHECK(again.next()[0].item<std::int64_t>() == 1);
  again.restore_state(state);
  CHECK(again.next()[0].item<std::int64_t>() == 3);
  write("1\n");
  auto shorter = records.iterator();
  CHECK_THROWS_MATCHES(shorter.restore_state(state), InvalidArgument, says("what is to be passed over has"));
}

TEST_CASE("positions that are none of the file's are refused", "[input][host]") {
  const test::TemporaryDirectory folder;
  test::write_number_files(folder.path());
  const auto refuses = [&](const auto& reader, const char* extension, const readers::Position& position,
                           const std::string& message) {
    const auto elements = reader(folder / (std::string("1") + extension));
    CHECK_THROWS_MATCHES(elements.seek(position), InvalidArgument, says(message));
  };
  const std::string none = "the position to go on from is not one where an element begins";
  refuses(readers::lines(), ".txt", {}, none);
  refuses(readers::lines(), ".txt", {1000, 5}, "what is to be passed over has 1000 bytes");
  refuses(readers::idx(), ".idx", {13}, none);
  refuses(readers::idx(), ".idx.gz", {13}, none);
  refuses(readers::csv({.columns = {DType::i64, readers::CsvColumn::text()}}), ".csv", {0, 1}, none);
  refuses(readers::records({.record_bytes = 3, .header_bytes = 2, .footer_bytes = 1}), ".bin", {4}, none);
  refuses(readers::npy(), ".npy", {13}, none);
  refuses(readers::npz(), ".npz", {1, 1}, "the array has 12 rows");
}

TEST_CASE("a state is small where elements are rows, files and numbers", "[input][host]") {
  const auto rows = Dataset::from_tensor_slices(Tensor::zeros({1000, 500}));
  auto plain = rows.iterator();
  plain.next();
  CHECK(plain.save_state().size() < 200);
  auto shuffled = rows.shuffle(1000, 1).batch(8).iterator();
  shuffled.next();
  CHECK(shuffled.save_state().size() < 5300);  // 992 numbers of up to 2 bytes, and the random numbers' state
}

TEST_CASE("without reshuffle_each_iteration all passes have one order", "[input][host]") {
  // tf.data: with reshuffle_each_iteration=False each iteration has the same order, also below repeat.
  const auto once = Dataset::range(20).shuffle(20, 5, false);
  const Values order = flat_elements(once);
  CHECK(flat_elements(once) == order);
  CHECK(order == flat_elements(Dataset::range(20).shuffle(20, 5)));
  Values twice = order;
  twice.insert(twice.end(), order.begin(), order.end());
  CHECK(flat_elements(Dataset::range(20).shuffle(20, 5, false).repeat(2)) == twice);
  const auto each = Dataset::range(20).shuffle(20, 5);
  const Values first = flat_elements(each), second = flat_elements(each);
  CHECK(first != second);
  const auto drawn = Dataset::range(20).shuffle(20, {}, false);
  CHECK(flat_elements(drawn) == flat_elements(drawn));
}

TEST_CASE("an iterator of an epoch has the orders of the pass of this number", "[input][host]") {
  const auto make = [] {
    const auto numbers = Dataset::range(20).shuffle(20, 5);
    return Dataset::zip(numbers, numbers).map([](const Tensor& a, const Tensor& b) { return a * 100 + b; });
  };
  const auto all = make(), jumping = make();
  std::vector<Values> epochs;
  for (int epoch = 0; epoch < 4; ++epoch) {
    auto iterator = all.iterator();
    epochs.push_back(rest_of(iterator));
  }
  auto third = jumping.iterator(2);
  CHECK(rest_of(third) == epochs[2]);
  auto next = jumping.iterator();
  CHECK(rest_of(next) == epochs[3]);
  auto first = jumping.iterator(0);
  CHECK(rest_of(first) == epochs[0]);
  auto second = jumping.iterator();
  CHECK(rest_of(second) == epochs[1]);
  CHECK_THROWS_MATCHES(jumping.iterator(-1), InvalidArgument,
                       says("TypedDataset::iterator: epoch -1. Count epochs"));
}

TEST_CASE("a shuffle without a seed goes on with the orders of the program that saved", "[input][host]") {
  const auto make = [] { return Dataset::range(20).shuffle(20).repeat(3); };
  const auto saved = make(), other = make();
  auto iterator = saved.iterator();
  for (int i = 0; i < 7; ++i) iterator.next();
  auto restored = other.iterator();
  restored.restore_state(iterator.save_state());
  CHECK(rest_of(restored) == rest_of(iterator));
  auto later = saved.iterator(), later_restored = other.iterator();
  CHECK(rest_of(later_restored) == rest_of(later));
}

TEST_CASE("a pass is saved while its threads work, and goes on", "[input][host]") {
  const auto slow = [](const Tensor& x) { return x + 1; };
  const auto numbers = Dataset::range(200)
                           .map(slow, {.num_parallel_calls = 4})
                           .prefetch(3)
                           .map(slow, {.num_parallel_calls = 2})
                           .prefetch(2);
  auto iterator = numbers.iterator();
  Values given;
  for (int i = 0; i < 50; ++i) {
    given.push_back(iterator.next().item<std::int64_t>());
    auto restored = numbers.iterator();
    restored.restore_state(iterator.save_state());
    if (i % 10 == 0) CHECK(rest_of(restored) == test::sequence(i + 3, 202));
  }
  CHECK(given == test::sequence(2, 52));
  CHECK(rest_of(iterator) == test::sequence(52, 202));
}

TEST_CASE("a cache that is being filled is filled by the restored pass", "[input][host]") {
  const auto make = [] { return Dataset::range(12).shuffle(12, 1).cache(); };
  const auto saved = make(), other = make();
  auto iterator = saved.iterator();
  for (int i = 0; i < 5; ++i) iterator.next();
  auto restored = other.iterator();
  restored.restore_state(iterator.save_state());
  CHECK(rest_of(restored) == rest_of(iterator));
  CHECK(flat_elements(other) == flat_elements(saved));
  // And one that is full is in the state.
  auto replaying = saved.iterator();
  replaying.next();
  const auto third = make();
  auto replayed = third.iterator();
  replayed.restore_state(replaying.save_state());
  CHECK(rest_of(replayed) == rest_of(replaying));
  CHECK(flat_elements(third) == flat_elements(saved));
}

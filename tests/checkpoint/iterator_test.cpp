// Iterators in checkpoints.
#include <cstdint>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::components;
using test::host_devices;
using test::says;
using test::TemporaryDirectory;
using test::Values;

namespace {

TypedDataset<Tensor> batches(std::int64_t size = 4) { return Dataset::range(20).shuffle(20, 1).batch(size); }

template <class Iterator>
std::vector<Values> rest_of(Iterator& iterator) {
  std::vector<Values> rows;
  while (const auto value = iterator.next_optional())
    for (const Values& part : components(*value)) rows.push_back(part);
  return rows;
}

}  // namespace

TEST_CASE("a checkpoint restores variables and the positions of iterators", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const auto path = directory / "c.safetensors";
  MirroredStrategy strategy(host_devices(2));
  std::vector<Values> rest;
  std::int64_t next = 0;
  {
    Variable w = strategy.make_variable(Tensor::scalar(1.0f), {.name = "w"});
    auto iterator = strategy.distribute_dataset(batches()).iterator();
    auto numbers = Dataset::range(9).iterator();
    Checkpoint checkpoint({{"w", w}});
    checkpoint.add("input", iterator).add("numbers", numbers);
    iterator.next();
    numbers.next();
    w.assign(5.0f);
    checkpoint.save(path);
    rest = rest_of(iterator);
    next = numbers.next().item<std::int64_t>();
  }
  Variable w = strategy.make_variable(Tensor::scalar(1.0f), {.name = "w"});
  auto iterator = strategy.distribute_dataset(batches()).iterator();
  auto numbers = Dataset::range(9).iterator();
  Checkpoint checkpoint({{"w", w}});
  checkpoint.add("input", iterator).add("numbers", numbers);
  checkpoint.restore(path);
  CHECK(w.value().item<float>() == 5);
  CHECK(rest_of(iterator) == rest);
  CHECK(numbers.next().item<std::int64_t>() == next);
  // An iterator that is moved into the object is the one that is saved.
  iterator = strategy.distribute_dataset(batches()).iterator(3);
  checkpoint.save(path);
  auto other = strategy.distribute_dataset(batches()).iterator();
  Checkpoint of_other;
  of_other.add("input", other).restore(path, {.ignore_unknown_entries = true});
  CHECK(other.epoch() == 3);
}

TEST_CASE("a checkpoint whose iterator is refused changes nothing", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const auto path = directory / "c.safetensors";
  Variable w(Tensor::scalar(1.0f), {.name = "w"});
  auto first = Dataset::range(9).iterator(), second = batches().iterator();
  Checkpoint checkpoint({{"w", w}});
  checkpoint.add("a", first).add("b", second);
  checkpoint.save(path);
  w.assign(2.0f);
  auto a = Dataset::range(9).iterator(), b = batches(5).iterator();
  a.next();
  Checkpoint other({{"w", w}});
  other.add("a", a).add("b", b);
  CHECK_THROWS_MATCHES(other.restore(path), InvalidArgument,
                       says("Checkpoint::restore: ", path.string(),
                            ", entry 'b': restore_state: ", "is batch(4), but of this one batch(5)"));
  CHECK(w.value().item<float>() == 2);
  CHECK(a.next().item<std::int64_t>() == 1);

  Checkpoint missing;
  missing.add("c", a);
  CHECK_THROWS_MATCHES(missing.restore(path), InvalidArgument, says("has no entry 'c' for an iterator"));
  Checkpoint no_state;
  no_state.add("w", a);
  CHECK_THROWS_MATCHES(no_state.restore(path), InvalidArgument,
                       says("entry 'w': it is not the state of an iterator"));
  Checkpoint without;
  CHECK_THROWS_MATCHES(without.restore(path), InvalidArgument, says("entry 'a'"));
}

TEST_CASE("variables and iterators have keys of their own", "[checkpoint][host]") {
  Variable w(Tensor::scalar(1.0f), {.name = "w"});
  auto iterator = Dataset::range(9).iterator();
  Checkpoint checkpoint({{"w", w}});
  CHECK_THROWS_MATCHES(checkpoint.add("w", iterator), InvalidArgument, says("the key 'w' is in use already"));
  checkpoint.add("input", iterator);
  CHECK_THROWS_MATCHES(checkpoint.add("input", iterator), InvalidArgument, says("in use already"));
  CHECK_THROWS_MATCHES(checkpoint.add("input", w), InvalidArgument, says("in use already"));
  CHECK_THROWS_MATCHES(checkpoint.add("", iterator), InvalidArgument, says("a key is empty"));
}

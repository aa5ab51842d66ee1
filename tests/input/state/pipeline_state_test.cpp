// What a state says of the dataset that it is of, and the passes that are refused.
#include "input/state/pipeline_state.hpp"

#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::says;
using test::vector_of;

namespace {

template <class E>
IteratorState state_after(const TypedDataset<E>& dataset, int num_elements) {
  auto iterator = dataset.iterator();
  for (int i = 0; i < num_elements; ++i) iterator.next();
  return iterator.save_state();
}

/// Restores a state into a dataset that has given 0, and checks that this goes on with 1 if it is refused.
void refuses(const TypedDataset<Tensor>& dataset, const IteratorState& state, const std::string& message) {
  auto iterator = dataset.iterator();
  CHECK(iterator.next().item<std::int64_t>() == 0);
  CHECK_THROWS_MATCHES(iterator.restore_state(state), InvalidArgument, says(message));
  CHECK(iterator.next().item<std::int64_t>() == 1);
}

struct NoDefault {
  explicit NoDefault(Tensor given) : tensor(std::move(given)) {}
  Tensor tensor;
};
LOCKSTEP_NEST(NoDefault, tensor)

}  // namespace

TEST_CASE("a state of another dataset is refused, with the stage that differs", "[input][host]") {
  const auto numbers = Dataset::range(9);
  refuses(numbers.take(5), state_after(numbers.take(4), 1),
          "stage 2 of the dataset that the state is of is take(4), but of this one take(5). Restore it into");
  refuses(numbers, state_after(numbers.take(4), 1),
          "stage 2 of the dataset that the state is of is take(4), but of this one none");
  refuses(numbers, state_after(Dataset::range(8), 1),
          "stage 1 of the dataset that the state is of is range(0, 8, 1), but of this one range(0, 9, 1)");
  refuses(Dataset::from_tensor_slices(vector_of({0, 1})), state_after(numbers, 1),
          "from_tensor_slices([2] int64)");
  const auto doubled = [](const Tensor& x) { return x * 2; };
  refuses(numbers.map([](const Tensor& x) { return x; }),
          state_after(numbers.map(doubled, {.num_parallel_calls = 2}), 1),
          "is map(2 calls), but of this one map(one call)");
  refuses(numbers.concatenate(numbers), state_after(numbers.concatenate(Dataset::range(2)), 1),
          "stage 2 of the dataset that the state is of is range(0, 2, 1)");
  auto iterator = numbers.iterator();
  const auto moved = std::move(iterator);
  CHECK_THROWS_AS(iterator.save_state(), ContextError);  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(iterator.restore_state(moved.save_state()), ContextError);
  const auto inner = [](std::int64_t n) {
    return Dataset::range(3).flat_map([n](const Tensor&) { return Dataset::range(n); });
  };
  refuses(inner(4), state_after(inner(3), 1), "range(0, 3, 1), but of this one range(0, 4, 1)");
}

TEST_CASE("a state of another kind of iterator, and a damaged one, are refused", "[input][host]") {
  const auto numbers = Dataset::range(9).shuffle(1, 1);
  const IteratorState good = state_after(numbers, 3);
  for (std::size_t size = 0; size < good.size(); size += 7)
    refuses(numbers, IteratorState(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)),
            "of the state");
  for (std::size_t i = 0; i < good.size(); i += 5) {
    IteratorState changed = good;
    changed[i] ^= std::byte{1};
    refuses(numbers, changed, "of the state");
  }
}

TEST_CASE("a scan's state is a nest of tensors, text, or bytes", "[input][host]") {
  struct Plain {
    int a = 0;
    double b = 0;
  };
  const auto numbers = Dataset::range(9);
  const auto check = [](const auto& dataset) {
    auto iterator = dataset.iterator();
    for (int i = 0; i < 4; ++i) iterator.next();
    auto other = dataset.iterator();
    other.restore_state(iterator.save_state());
    CHECK(other.next().template item<std::int64_t>() == iterator.next().template item<std::int64_t>());
  };
  const auto scalar = [](std::int64_t value) { return Tensor::scalar(value, Device()); };
  check(numbers.scan(Plain(), [&](Plain state, const Tensor& x) {
    state.a += static_cast<int>(x.item<std::int64_t>());
    return std::pair(state, scalar(state.a));
  }));
  check(numbers.scan(std::string(), [&](const std::string& state, const Tensor&) {
    return std::pair(state + "x", scalar(static_cast<std::int64_t>(state.size())));
  }));
  check(numbers.scan(std::map<std::string, Tensor>(),
                     [&](std::map<std::string, Tensor> state, const Tensor& x) {
                       state[std::to_string(state.size())] = x;
                       return std::pair(state, scalar(static_cast<std::int64_t>(state.size())));
                     }));
  const auto sets = numbers.scan(
      std::set<int>(), [](const std::set<int>& state, const Tensor& x) { return std::pair(state, x); });
  CHECK_THROWS_MATCHES(sets.iterator().save_state(), Unsupported,
                       says("save_state: Dataset::scan: the state is neither a nest of Tensors"));
}

TEST_CASE("lengths and keys that elements have shown are in the state", "[input][host]") {
  using Row = std::map<std::string, Tensor>;
  const auto rows = Dataset::range(6)
                        .map([](const Tensor& x) {
                          return Row{{"a", x}, {"b", x + 1}};
                        })
                        .shuffle(6, 1)
                        .map([](const Row& row) { return row.at("a") * 10 + row.at("b"); });
  const IteratorState state = state_after(rows, 2);
  // A pipeline like it whose functions have not been called yet, as in another process.
  const auto again = Dataset::range(6)
                         .map([](const Tensor& x) {
                           return Row{{"a", x}, {"b", x + 1}};
                         })
                         .shuffle(6, 1)
                         .map([](const Row& row) { return row.at("a") * 10 + row.at("b"); });
  auto iterator = rows.iterator(0), restored = again.iterator();
  for (int i = 0; i < 2; ++i) iterator.next();
  restored.restore_state(state);
  for (int i = 0; i < 4; ++i)
    CHECK(restored.next().item<std::int64_t>() == iterator.next().item<std::int64_t>());
  CHECK_FALSE(restored.next_optional());

  const auto lists =
      Dataset::range(3).map([](const Tensor& x) { return std::vector<NoDefault>{NoDefault(x)}; });
  auto of_lists = lists.iterator();
  CHECK_NOTHROW(of_lists.save_state());
  of_lists.next();
  CHECK_THROWS_MATCHES(of_lists.save_state(), Unsupported, says("a struct without a default constructor"));
}

TEST_CASE("exceptions that were read ahead are thrown by the restored pass, with their classes",
          "[input][host]") {
  const auto failing = [](const Tensor& x) -> Tensor {
    switch (x.item<std::int64_t>()) {
      case 1: throw NotFound("one");
      case 2: throw std::runtime_error("two");
      case 3: throw 3;
      default: return x;
    }
  };
  const auto ahead = Dataset::range(5).map(failing).prefetch(5);
  auto iterator = ahead.iterator();
  iterator.next();
  auto restored = ahead.iterator();
  restored.restore_state(iterator.save_state());
  CHECK_THROWS_MATCHES(restored.next(), NotFound, says("Dataset::map: element 1: one"));
  CHECK_THROWS_MATCHES(restored.next(), Error, says("two"));
  CHECK_THROWS_AS(restored.next(), Error);
  CHECK(restored.next().item<std::int64_t>() == 4);
}

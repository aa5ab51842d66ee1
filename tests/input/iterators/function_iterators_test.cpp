#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "detail/expects.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::flat_elements;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

using Pair = std::tuple<Tensor, Tensor>;

namespace function_passes_test {
struct Example {
  Tensor image;
  Tensor label;
};
LOCKSTEP_NEST(Example, image, label)

bool is_even(const Tensor& x) { return x.item<std::int64_t>() % 2 == 0; }

/// Generators that count to `stop`, and how many there were.
auto counting(std::int64_t stop, std::shared_ptr<int> num_made) {
  return [=] {
    ++*num_made;
    return [stop, next = std::int64_t{0}]() mutable {
      return next < stop ? std::optional(Tensor::scalar(next++)) : std::nullopt;
    };
  };
}
}  // namespace function_passes_test

using function_passes_test::counting;
using function_passes_test::Example;
using function_passes_test::is_even;

TEST_CASE("map calls the function for each element", "[input][host]") {
  const auto twice = Dataset::range(5).map([](const Tensor& x) { return x * 2; });
  static_assert(std::is_same_v<decltype(twice), const TypedDataset<Tensor>>);
  CHECK(flat_elements(twice) == Values{0, 2, 4, 6, 8});
  CHECK(flat_elements(twice) == Values{0, 2, 4, 6, 8});
  CHECK(flat_elements(Dataset::range(0).map([](Tensor x) { return x; })).empty());
  CHECK(all_elements(Dataset::range(4).batch(2).map([](const Tensor& x) { return x + 1; })) ==
        std::vector<Values>{{1, 2}, {3, 4}});
  CHECK(all_elements(twice.batch(3)) == std::vector<Values>{{0, 2, 4}, {6, 8}});
}

TEST_CASE("map and filter take the members of tuples and pairs as arguments", "[input][host]") {
  const Tensor a = vector_of({1, 2, 3}), b = vector_of({10, 20, 30});
  const auto pairs = Dataset::from_tensor_slices(a, b);
  CHECK(flat_elements(pairs.map([](Tensor x, Tensor y) { return x + y; })) == Values{11, 22, 33});
  CHECK(flat_elements(pairs.map([](Pair pair) { return std::get<1>(pair); })) == Values{10, 20, 30});
  CHECK(flat_elements(pairs.map([](auto&&... x) { return (... + x); })) == Values{11, 22, 33});
  CHECK(flat_elements(pairs.filter([](const Tensor& x, const Tensor&) { return !is_even(x); }), 1) ==
        Values{10, 30});
  CHECK(flat_elements(Dataset::from_tensor_slices(std::pair{a, b}).map([](const Tensor& x, const Tensor& y) {
          return y - x;
        })) == Values{9, 18, 27});
}

TEST_CASE("map changes the static type", "[input][host]") {
  const auto numbers = Dataset::range(3);
  const auto tuples = numbers.map([](const Tensor& x) { return std::tuple{x, x + 1}; });
  static_assert(std::is_same_v<decltype(tuples), const TypedDataset<Pair>>);
  CHECK(flat_elements(tuples, 1) == Values{1, 2, 3});
  const auto maps = numbers.map([](const Tensor& x) {
    return std::map<std::string, Tensor>{{"a", x}, {"b", x + 1}};
  });
  CHECK(flat_elements(maps.map([](const auto& map) { return map.at("b") - map.at("a"); })) ==
        Values{1, 1, 1});
  const auto lists = numbers.map([](const Tensor& x) { return std::vector{x, x, x}; });
  CHECK(flat_elements(lists.map([](const std::vector<Tensor>& list) { return list[2]; })) == Values{0, 1, 2});
  const auto structs = numbers.map([](const Tensor& x) { return Example{x, x * 3}; });
  CHECK(flat_elements(structs.map([](const Example& example) { return example.label; })) == Values{0, 3, 6});
  CHECK(flat_elements(Dataset(structs).as<Example>(), 1) == Values{0, 3, 6});
  CHECK_THROWS_MATCHES(Dataset(tuples).as<Tensor>(), InvalidArgument, says("Dataset::as<lockstep::Tensor>"));
}

TEST_CASE("what map gives is brought to the host, contiguous", "[input][host]") {
  const auto moved = Dataset::range(6).batch(6).map([](const Tensor& x) {
    return x.to("CPU:2").reshape({3, 2}).narrow(1, 1, 2);
  });
  const auto element = moved.pipeline()->open()->next();
  CHECK(element->at(0).device() == Device("CPU:0"));
  CHECK(element->at(0).is_contiguous());
  CHECK(element->at(0).to_vector<std::int64_t>() == Values{1, 3, 5});
}

TEST_CASE("elements that map gives have one structure", "[input][host]") {
  const auto lists = Dataset::range(5).map(
      [](const Tensor& x) { return std::vector<Tensor>(x.item<std::int64_t>() == 3 ? 2 : 1, x); });
  auto pass = lists.pipeline()->open();
  for (int i = 0; i < 3; ++i) CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("Dataset::map: element 3: ", "structure [*, *]", "the first one had [*]"));
  CHECK(all_elements(*pass) == std::vector<Values>{{4}});
}

TEST_CASE("filter keeps the elements for which the function holds", "[input][host]") {
  const auto even = Dataset::range(10).filter(is_even);
  static_assert(std::is_same_v<decltype(even), const TypedDataset<Tensor>>);
  CHECK(flat_elements(even) == Values{0, 2, 4, 6, 8});
  CHECK(all_elements(even.batch(2, true)) == std::vector<Values>{{0, 2}, {4, 6}});
  CHECK(flat_elements(Dataset::range(7).filter([](const Tensor&) { return false; })).empty());
  CHECK(flat_elements(Dataset::range(7).filter([](const Tensor&) { return true; })) == sequence(0, 7));
  CHECK(flat_elements(Dataset::range(0).filter(is_even)).empty());
}

TEST_CASE("functions are not called before a pass asks", "[input][host]") {
  std::atomic<int> calls = 0;
  const auto counted = Dataset::range(3).map([&](const Tensor& x) {
    ++calls;
    return x;
  });
  auto pass = counted.filter(is_even).batch(1).pipeline()->open();
  CHECK(calls == 0);
  pass->next();
  CHECK(calls == 1);
}

TEST_CASE("exceptions of functions come at their element, and the pass goes on after it", "[input][host]") {
  const auto fails_at = [](std::int64_t index) {
    return [index](const Tensor& x) {
      if (x.item<std::int64_t>() == index) throw std::runtime_error("odd weather");
      return x;
    };
  };
  const std::int64_t index = 2;
  auto pass = Dataset::range(4).map(fails_at(index)).pipeline()->open();
  CHECK(pass->next()->at(0).item<std::int64_t>() == 0);
  CHECK(pass->next()->at(0).item<std::int64_t>() == 1);
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 2: odd weather"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 3);
  CHECK_FALSE(pass->next());

  const auto filtered = Dataset::range(4).map(fails_at(3)).filter([](const Tensor& x) -> bool {
    LOCKSTEP_EXPECTS(x.item<std::int64_t>() != 1, Unsupported, "no ones");
    return true;
  });
  pass = filtered.pipeline()->open();
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Unsupported, says("Dataset::filter: element 1: no ones"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 2);
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 3: odd weather"));
  CHECK_FALSE(pass->next());
}

TEST_CASE("from_generator calls a fresh callable for each pass", "[input][host]") {
  const auto num_made = std::make_shared<int>(0);
  const auto numbers = Dataset::from_generator(counting(3, num_made));
  static_assert(std::is_same_v<decltype(numbers), const TypedDataset<Tensor>>);
  auto unused = numbers.pipeline()->open();
  CHECK(*num_made == 0);
  CHECK(flat_elements(numbers) == Values{0, 1, 2});
  CHECK(flat_elements(numbers.repeat(2)) == Values{0, 1, 2, 0, 1, 2});
  CHECK(*num_made == 3);
  CHECK(flat_elements(Dataset::from_generator(counting(0, num_made)).repeat()).empty());
  CHECK(flat_elements(numbers.shuffle(3, 1).take(9)).size() == 3);
}

TEST_CASE("a generator is not asked again after its end", "[input][host]") {
  const auto make = [] {
    return
        [calls = 0]() mutable { return ++calls == 2 ? std::nullopt : std::optional(Tensor::scalar(calls)); };
  };
  auto pass = Dataset::from_generator(make).pipeline()->open();
  CHECK(pass->next());
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("a generator's exceptions have its index", "[input][host]") {
  const auto make = [] {
    return [call = 0]() mutable -> std::optional<Pair> {
      if (call++ == 1) throw 7;
      return call == 4 ? std::nullopt : std::optional(Pair{Tensor::scalar(1), Tensor::scalar(2)});
    };
  };
  auto pass = Dataset::from_generator(make).pipeline()->open();
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error,
                       says("Dataset::from_generator: element 1: ", "not a std::exception"));
  CHECK(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("a generator that cannot be started has no elements after its exception", "[input][host]") {
  const auto num_made = std::make_shared<int>(0);
  const auto make = [counting = counting(2, num_made), num_made] {
    if (*num_made == 0) {
      ++*num_made;
      throw InvalidArgument("not yet.");
    }
    return counting();
  };
  const auto dataset = Dataset::from_generator(make);
  auto pass = dataset.pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("Dataset::from_generator: element 0: not yet."));
  CHECK_FALSE(pass->next());
  CHECK(*num_made == 1);
  CHECK(flat_elements(dataset) == Values{0, 1});
}

TEST_CASE("what makes elements may use its tensors again", "[input][host]") {
  const auto filled = [] {
    return [scratch = Tensor::zeros({1}, DType::i64, "CPU:0"), next = 0]() mutable -> std::optional<Tensor> {
      return next == 6 ? std::nullopt : std::optional(scratch.fill_(next++));
    };
  };
  // The same memory, which is the function's own.
  const auto borrowed = [] {
    return [frame = std::make_shared<std::int64_t>(), next = 0]() mutable -> std::optional<Tensor> {
      if (next == 6) return std::nullopt;
      *frame = next++;
      return Tensor::view(frame.get(), {1}, DType::i64, "CPU:0");
    };
  };
  struct Read {
    std::function<std::function<std::optional<Tensor>()>()> make;
    auto operator()(const std::filesystem::path&) const { return make(); }
  };
  const Tensor scratch = Tensor::zeros({1}, DType::i64, "CPU:0");
  const auto mapped = [scratch](const Tensor& x) {
    Tensor result = scratch;
    return result.fill_(x.item<std::int64_t>());
  };
  for (const TypedDataset<Tensor>& elements :
       {Dataset::from_generator(filled), Dataset::from_generator(borrowed),
        TypedDataset<Tensor>(Dataset::from_files({"a"}, Read{filled})),
        TypedDataset<Tensor>(Dataset::from_files({"a"}, Read{borrowed})),
        TypedDataset<Tensor>(Dataset::range(6).map(mapped))}) {
    CHECK(flat_elements(elements.batch(3)) == Values{0, 1, 2, 3, 4, 5});
    Values shuffled = flat_elements(elements.shuffle(6, 1));
    std::sort(shuffled.begin(), shuffled.end());
    CHECK(shuffled == Values{0, 1, 2, 3, 4, 5});
    CHECK(flat_elements(elements.prefetch(3)) == Values{0, 1, 2, 3, 4, 5});
  }
}

TEST_CASE("take_while ends for good at the first element that is refused", "[input][host]") {
  auto pass = Dataset::range(9)
                  .take_while([](const Tensor& x) { return x.item<std::int64_t>() % 3 != 2; })
                  .pipeline()
                  ->open();
  CHECK(all_elements(*pass) == std::vector<Values>{{0}, {1}});
  CHECK_FALSE(pass->next());
}

TEST_CASE("where a predicate of take_while throws, the next element follows", "[input][host]") {
  auto pass = Dataset::range(3)
                  .take_while([](const Tensor& x) {
                    if (x.item<std::int64_t>() == 1) throw Error("cloudy");
                    return true;
                  })
                  .pipeline()
                  ->open();
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::take_while: element 1: cloudy"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 2);
  CHECK_FALSE(pass->next());
}

TEST_CASE("scan keeps a state of any type, which a failing call leaves", "[input][host]") {
  const auto words = Dataset::range(4).scan(std::string("n"), [](const std::string& state, const Tensor& x) {
    const auto value = x.item<std::int64_t>();
    if (value == 2) throw Error("no word");
    return std::pair(state + std::to_string(value), Tensor::scalar(static_cast<std::int64_t>(state.size())));
  });
  for (int n = 0; n < 2; ++n) {  // each pass begins anew
    auto pass = words.pipeline()->open();
    CHECK(pass->next()->at(0).item<std::int64_t>() == 1);
    CHECK(pass->next()->at(0).item<std::int64_t>() == 2);
    CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::scan: element 2: no word"));
    CHECK(pass->next()->at(0).item<std::int64_t>() == 3);
    CHECK_FALSE(pass->next());
  }
}

TEST_CASE("flat_map names itself in what its function throws", "[input][host]") {
  const auto dataset = Dataset::range(2).flat_map([](const Tensor& x) {
    if (x.item<std::int64_t>() == 0) throw Error("nothing here");
    return Dataset::range(2);
  });
  auto pass = dataset.pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::flat_map: element 0: nothing here"));
  CHECK(all_elements(*pass) == std::vector<Values>{{0}, {1}});
}

namespace function_passes_test {
/// The seeds' lower bits, and the elements.
Tensor seed_of(std::uint64_t seed, const Tensor&) {
  return Tensor::scalar(static_cast<std::int64_t>(seed >> 1));
}
}  // namespace function_passes_test

TEST_CASE("map_with_seed gives each element another seed, the same in every program", "[input][host]") {
  using function_passes_test::seed_of;
  const auto seeds = [](std::uint64_t seed, int threads) {
    return Dataset::range(50).map_with_seed(seed_of, seed, {.num_parallel_calls = threads});
  };
  const auto dataset = seeds(5, 1);
  const Values first = flat_elements(dataset), second = flat_elements(dataset);
  CHECK(std::set(first.begin(), first.end()).size() == 50);
  CHECK(first != second);  // another pass
  CHECK(flat_elements(seeds(5, 1)) == first);
  CHECK(flat_elements(seeds(5, 4)) == first);
  CHECK(flat_elements(seeds(6, 1)) != first);
  const Values repeated = flat_elements(seeds(5, 1).repeat(2));
  CHECK(Values(repeated.begin(), repeated.begin() + 50) == first);
  CHECK(Values(repeated.begin() + 50, repeated.end()) != first);
  CHECK(flat_elements(Dataset::range(3).map_with_seed([](std::uint64_t, const Tensor& x) { return x + 1; },
                                                      0)) == Values{1, 2, 3});
  const auto shard = [](std::int64_t index) {
    return flat_elements(Dataset::range(8).shard(2, index).map_with_seed(seed_of, 5));
  };
  CHECK(shard(0) != shard(1));
  CHECK_THROWS_MATCHES(seeds(5, 0), InvalidArgument, says("Dataset::map_with_seed: num_parallel_calls is 0"));
}

TEST_CASE("what comes before map_with_seed throws does not shift the seeds", "[input][host]") {
  using function_passes_test::seed_of;
  const auto whole = flat_elements(Dataset::range(4).map_with_seed(seed_of, 1));
  auto pass = Dataset::range(4)
                  .map([](const Tensor& x) {
                    if (x.item<std::int64_t>() == 1) throw Error("bad");
                    return x;
                  })
                  .map_with_seed(seed_of, 1)
                  .pipeline()
                  ->open();
  CHECK(pass->next()->at(0).item<std::int64_t>() == whole[0]);
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 1: bad"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == whole[2]);
}

TEST_CASE("apply lets a function stand in the chain", "[input][host]") {
  const auto halves = [](const TypedDataset<Tensor>& dataset) { return dataset.take(4).batch(2); };
  CHECK(all_elements(Dataset::range(9).apply(halves)) == std::vector<Values>{{0, 1}, {2, 3}});
}

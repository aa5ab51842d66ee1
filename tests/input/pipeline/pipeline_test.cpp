#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::flat_elements;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

namespace pipeline_test {
struct Example {
  Tensor image;
  Tensor label;
};
LOCKSTEP_NEST(Example, image, label)
}  // namespace pipeline_test

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Transformations keep the static type; forgetting it is a conversion.
using Pair = std::tuple<Tensor, Tensor>;
static_assert(std::is_same_v<decltype(Dataset::range(8)), TypedDataset<Tensor>>);
static_assert(std::is_same_v<decltype(Dataset::from_tensor_slices(Tensor(), Tensor())), TypedDataset<Pair>>);
static_assert(std::is_same_v<decltype(Dataset::from_tensor_slices(Tensor(), Tensor())
                                          .shuffle(9, 1)
                                          .repeat(2)
                                          .take(3)
                                          .skip(1)
                                          .batch(2)),
                             TypedDataset<Pair>>);
static_assert(std::is_same_v<decltype(std::declval<Dataset>().batch(4).repeat()), Dataset>);
static_assert(std::is_convertible_v<TypedDataset<Pair>, Dataset>);
static_assert(!std::is_convertible_v<Dataset, TypedDataset<Pair>>);
static_assert(sizeof(TypedDataset<Pair>) == sizeof(Dataset));

TEST_CASE("range counts from start to stop", "[input][host]") {
  CHECK(flat_elements(Dataset::range(5)) == Values{0, 1, 2, 3, 4});
  CHECK(flat_elements(Dataset::range(2, 11, 3)) == Values{2, 5, 8});
  CHECK(flat_elements(Dataset::range(2, 12, 3)) == Values{2, 5, 8, 11});
  CHECK(flat_elements(Dataset::range(5, 0, -2)) == Values{5, 3, 1});
  CHECK(flat_elements(Dataset::range(0)).empty());
  CHECK(flat_elements(Dataset::range(3, 3)).empty());
  CHECK(flat_elements(Dataset::range(3, 1)).empty());
  CHECK(flat_elements(Dataset::range(kLeast, kMost, kMost)) == Values{kLeast, -1, kMost - 1});
  CHECK(flat_elements(Dataset::range(kMost, kLeast, kLeast)) == Values{kMost, -1});
  const auto element = Dataset::range(1).pipeline()->open()->next();
  CHECK(element->at(0).shape() == Shape());
  CHECK(element->at(0).dtype() == DType::i64);
}

TEST_CASE("a range without a step, or with too many elements, is refused", "[input][host]") {
  CHECK_THROWS_MATCHES(Dataset::range(1, 2, 0), InvalidArgument,
                       says("Dataset::range(1, 2, 0)", "the step is 0"));
  CHECK_THROWS_MATCHES(Dataset::range(kLeast, kMost), InvalidArgument,
                       says("elements are too many", "larger step"));
}

TEST_CASE("slices of one tensor are its rows", "[input][host]") {
  const Dataset rows = Dataset::from_tensor_slices(Tensor::from(sequence(0, 6), {3, 2}));
  CHECK(all_elements(rows) == std::vector<Values>{{0, 1}, {2, 3}, {4, 5}});
  CHECK(rows.pipeline()->open()->next()->at(0).shape() == Shape(2));
  CHECK(all_elements(Dataset::from_tensor_slices(Tensor::zeros({0, 2}, DType::i64))).empty());
}

TEST_CASE("slices of several tensors, or of a nest of them, go together", "[input][host]") {
  const Tensor a = vector_of({1, 2, 3}), b = vector_of({4, 5, 6});
  const auto check = [&](const Dataset& dataset) {
    CHECK(flat_elements(dataset, 0) == Values{1, 2, 3});
    CHECK(flat_elements(dataset, 1) == Values{4, 5, 6});
  };
  check(Dataset::from_tensor_slices(a, b));
  check(Dataset::from_tensor_slices(std::pair{a, b}));
  check(Dataset::from_tensor_slices(std::map<std::string, Tensor>{{"b", b}, {"a", a}}));
  check(Dataset::from_tensor_slices(std::vector{a, b}));
  check(Dataset::from_tensor_slices(std::array{a, b}));
  check(Dataset::from_tensor_slices(pipeline_test::Example{a, b}));
  check(Dataset::from_tensor_slices(std::pair{a, std::map<std::string, Tensor>{{"c", b}}}));
}

TEST_CASE("slices of tensors elsewhere, or with gaps, are read as well", "[input][host]") {
  const Tensor matrix = Tensor::from(sequence(0, 6), {3, 2});
  CHECK(flat_elements(Dataset::from_tensor_slices(matrix.narrow(1, 1, 2))) == Values{1, 3, 5});
  CHECK(flat_elements(Dataset::from_tensor_slices(matrix.to("CPU:3"))) == sequence(0, 6));
}

TEST_CASE("slices of what has no rows in common are refused", "[input][host]") {
  const Tensor three = Tensor::zeros({3, 4}), two = Tensor::zeros({2});
  CHECK_THROWS_MATCHES(Dataset::from_tensor_slices(three, two), InvalidArgument,
                       says("Dataset::from_tensor_slices: component 1, [2] float32", "2 rows",
                            "component 0, [3, 4] float32", "has 3"));
  CHECK_THROWS_MATCHES(Dataset::from_tensor_slices(three, Tensor::scalar(1.0f)), InvalidArgument,
                       says("component 1 is a scalar, [] float32", "has no rows"));
  CHECK_THROWS_MATCHES(Dataset::from_tensor_slices(std::vector<Tensor>()), InvalidArgument,
                       says("there are no tensors"));
}

TEST_CASE("writing to an element changes no other and not the source", "[input][host]") {
  const Tensor source = Tensor::from(sequence(0, 4), {2, 2});
  const Dataset rows = Dataset::from_tensor_slices(source);
  rows.pipeline()->open()->next()->at(0).fill_(9);
  rows.batch(2).pipeline()->open()->next()->at(0).fill_(9);
  CHECK(source.to_vector<std::int64_t>() == sequence(0, 4));
  CHECK(flat_elements(rows) == sequence(0, 4));
}

TEST_CASE("a pass lives on without its dataset, and beside other passes", "[input][host]") {
  auto first = Dataset::range(4).batch(2).pipeline()->open();
  const Dataset dataset = Dataset::range(4).batch(2);
  auto second = dataset.pipeline()->open(), third = dataset.pipeline()->open();
  CHECK(second->next()->at(0).to_vector<std::int64_t>() == Values{0, 1});
  CHECK(all_elements(*third) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK(all_elements(*second) == std::vector<Values>{{2, 3}});
  CHECK(all_elements(*first) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK_FALSE(first->next());
}

TEST_CASE("shuffle gives every element once, in another order each pass", "[input][host]") {
  const Dataset dataset = Dataset::range(100).shuffle(100, 7);
  std::set<Values> orders;
  for (int pass = 0; pass < 5; ++pass) {
    Values order = flat_elements(dataset);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    CHECK(order == sequence(0, 100));
  }
  CHECK(orders.size() == 5);
  CHECK(orders.count(sequence(0, 100)) == 0);
}

TEST_CASE("the seed alone decides the orders of a shuffle", "[input][host]") {
  const auto two_passes = [](std::optional<std::uint64_t> seed) {
    const Dataset dataset = Dataset::range(50).shuffle(20, seed);
    Values orders = flat_elements(dataset);
    const Values second = flat_elements(dataset);
    orders.insert(orders.end(), second.begin(), second.end());
    return orders;
  };
  CHECK(two_passes(3) == two_passes(3));
  CHECK(two_passes(3) != two_passes(4));
  CHECK(two_passes({}) != two_passes({}));  // equal once in far more than 2^64 times
  CHECK(flat_elements(Dataset::range(5).shuffle(5, 1)) ==
        flat_elements(Dataset::range(5).shuffle(5, 1).take(9)));
}

TEST_CASE("shuffle draws from the next elements only", "[input][host]") {
  const Values order = flat_elements(Dataset::range(1000).shuffle(10, 1));
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] < static_cast<std::int64_t>(i) + 10);
  CHECK(flat_elements(Dataset::range(20).shuffle(1, 1)) == sequence(0, 20));
}

TEST_CASE("a full shuffle puts every element everywhere alike", "[input][host]") {
  constexpr std::int64_t kElements = 5, kPasses = 5000;
  const Dataset dataset = Dataset::range(kElements).shuffle(kMost, 11);
  std::array<std::array<std::int64_t, kElements>, kElements> counts{};
  for (std::int64_t pass = 0; pass < kPasses; ++pass) {
    const Values order = flat_elements(dataset);
    for (std::size_t i = 0; i < order.size(); ++i) ++counts[i][static_cast<std::size_t>(order[i])];
  }
  // 1000 expected, standard deviation 28.
  for (const auto& row : counts)
    for (const std::int64_t count : row) CHECK((count > 830 && count < 1170));
}

TEST_CASE("a shuffle of batches keeps the batches", "[input][host]") {
  const std::vector<Values> batches = all_elements(Dataset::range(20).batch(2).shuffle(10, 5));
  std::set<Values> seen(batches.begin(), batches.end());
  CHECK(seen.size() == 10);
  for (const Values& batch : seen) CHECK((batch[0] % 2 == 0 && batch[1] == batch[0] + 1));
}

TEST_CASE("repeat goes through the elements again, in a fresh order", "[input][host]") {
  CHECK(flat_elements(Dataset::range(3).repeat(2)) == Values{0, 1, 2, 0, 1, 2});
  CHECK(flat_elements(Dataset::range(3).repeat().take(7)) == Values{0, 1, 2, 0, 1, 2, 0});
  CHECK(flat_elements(Dataset::range(2).batch(2).repeat(2)) == Values{0, 1, 0, 1});
  CHECK(flat_elements(Dataset::range(3).repeat(0)).empty());
  const Values orders = flat_elements(Dataset::range(64).shuffle(64, 1).repeat(2));
  CHECK(Values(orders.begin(), orders.begin() + 64) != Values(orders.begin() + 64, orders.end()));
}

TEST_CASE("no elements repeated forever are no elements", "[input][host]") {
  auto pass = Dataset::range(0).repeat().pipeline()->open();
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("take and skip divide a dataset", "[input][host]") {
  const Dataset dataset = Dataset::range(5);
  CHECK(flat_elements(dataset.take(2)) == Values{0, 1});
  CHECK(flat_elements(dataset.skip(2)) == Values{2, 3, 4});
  CHECK(flat_elements(dataset.take(0)).empty());
  CHECK(flat_elements(dataset.skip(0)) == sequence(0, 5));
  CHECK(flat_elements(dataset.take(9)) == sequence(0, 5));
  CHECK(flat_elements(dataset.skip(9)).empty());
  CHECK(flat_elements(dataset.batch(2).skip(1)) == Values{2, 3, 4});
  CHECK(flat_elements(dataset.batch(2).take(1)) == Values{0, 1});
}

TEST_CASE("shard gives every so many-th element", "[input][host]") {
  const Dataset dataset = Dataset::range(7);
  CHECK(flat_elements(dataset.shard(3, 0)) == Values{0, 3, 6});
  CHECK(flat_elements(dataset.shard(3, 1)) == Values{1, 4});
  CHECK(flat_elements(dataset.shard(3, 2)) == Values{2, 5});
  CHECK(flat_elements(dataset.shard(1, 0)) == sequence(0, 7));
  CHECK(flat_elements(dataset.shard(kMost, 6)) == Values{6});
  CHECK(flat_elements(dataset.shard(8, 7)).empty());
  CHECK(flat_elements(Dataset::range(0).shard(2, 0)).empty());
  CHECK(flat_elements(dataset.batch(2).shard(2, 1)) == Values{2, 3, 6});
  CHECK(all_elements(dataset.shard(2, 1).batch(2)) == std::vector<Values>{{1, 3}, {5}});
  static_assert(std::is_same_v<decltype(Dataset::range(8).shard(2, 0)), TypedDataset<Tensor>>);
}

TEST_CASE("transformations that cannot be are refused", "[input][host]") {
  const Dataset dataset = Dataset::range(5);
  CHECK_THROWS_MATCHES(dataset.shuffle(0), InvalidArgument, says("Dataset::shuffle: a buffer of 0 elements"));
  CHECK_THROWS_MATCHES(dataset.batch(0), InvalidArgument, says("Dataset::batch: batches of 0 elements"));
  CHECK_THROWS_MATCHES(dataset.repeat(-2), InvalidArgument, says("Dataset::repeat: -2 passes", "forever"));
  CHECK_THROWS_MATCHES(dataset.take(-1), InvalidArgument, says("Dataset::take: -1 elements"));
  CHECK_THROWS_MATCHES(dataset.skip(-1), InvalidArgument, says("Dataset::skip: -1 elements"));
  CHECK_THROWS_MATCHES(dataset.shard(3, 3), InvalidArgument,
                       says("Dataset::shard: index 3 is not one of 3 shards"));
  CHECK_THROWS_MATCHES(dataset.shard(3, -1), InvalidArgument, says("Dataset::shard: index -1"));
  CHECK_THROWS_MATCHES(dataset.shard(0, 0), InvalidArgument, says("0 shards. Pass at least 1 shard"));
}

TEST_CASE("a dataset remembers its element type", "[input][host]") {
  const Dataset forgotten = Dataset::from_tensor_slices(vector_of({1, 2}), vector_of({3, 4}));
  const auto typed = forgotten.batch(2).as<Pair>();
  static_assert(std::is_same_v<decltype(typed), const TypedDataset<Pair>>);
  CHECK(flat_elements(typed, 1) == Values{3, 4});
  CHECK_THROWS_MATCHES(
      forgotten.as<Tensor>(), InvalidArgument,
      says("Dataset::as<lockstep::Tensor>", "std::tuple<lockstep::Tensor, lockstep::Tensor>"));
}

namespace pipeline_test {
/// A function that counts its copies.
struct CountedGenerator {
  CountedGenerator() = default;
  CountedGenerator(const CountedGenerator& other) : num_copies(other.num_copies) { ++*num_copies; }
  auto operator()() const {
    return [next = std::int64_t{0}]() mutable { return std::optional(Tensor::scalar(next++)); };
  }
  std::shared_ptr<int> num_copies = std::make_shared<int>(0);
};
}  // namespace pipeline_test

TEST_CASE("a chain of transformations does not copy what came before", "[input][host]") {
  const pipeline_test::CountedGenerator make;
  TypedDataset<Tensor> dataset = Dataset::from_generator(make);
  const int at_first = *make.num_copies;
  for (int i = 0; i < 50; ++i)
    dataset = dataset.take(100 - i).repeat(1).concatenate(dataset).shard(1, 0).prefetch(1);
  CHECK(*make.num_copies == at_first);
  CHECK(flat_elements(dataset.take(2)) == Values{0, 1});
}

TEST_CASE("an element that throws has its number: shards stay apart", "[input][host]") {
  const auto bad_at = [](std::int64_t bad) {
    return Dataset::range(8).map([bad](const Tensor& x) {
      if (x.item<std::int64_t>() == bad) throw InvalidArgument("bad.");
      return x;
    });
  };
  // What a pass gives, -1 for an exception.
  const auto read = [](const Dataset& dataset) {
    Values values;
    for (auto pass = dataset.pipeline()->open();;) {
      try {
        const auto element = pass->next();
        if (!element) return values;
        values.push_back(element->at(0).item<std::int64_t>());
      } catch (const InvalidArgument&) {
        values.push_back(-1);
      }
    }
  };
  CHECK(read(bad_at(3).shard(2, 0)) == Values{0, 2, -1, 4, 6});
  CHECK(read(bad_at(3).shard(2, 1)) == Values{1, -1, 5, 7});
  CHECK(read(bad_at(0).shard(3, 1)) == Values{-1, 1, 4, 7});
  CHECK(read(bad_at(7).shard(3, 1)) == Values{1, 4, -1});
  const auto share = [&](std::int64_t bad, int index, int num_workers = 2) {
    return read(
        auto_shard(bad_at(bad), InputContext(num_workers, index, num_workers), AutoShardPolicy::data));
  };
  CHECK(share(0, 0) == Values{-1, 2, 4, 6});
  CHECK(share(0, 1) == Values{-1, 1, 3, 5, 7});
  CHECK(share(1, 0) == Values{-1, 0, 2, 4, 6});
  CHECK(share(1, 1) == Values{-1, 3, 5, 7});
  CHECK(share(1, 0, 9) == Values{-1, -1});  // that element, and that there are fewer than 9
  CHECK(share(7, 0, 8) == Values{-1, 0});
}

TEST_CASE("what is known of windows and of rows", "[input][host]") {
  const auto spec = [](const Dataset& dataset) { return dataset.pipeline()->spec; };
  const auto table = Dataset::from_tensor_slices(Tensor::zeros({6, 3}));
  CHECK(spec(table.window(2)) == std::vector{TensorSpec({std::nullopt, 3}, DType::f32)});
  CHECK(spec(table.window(2, 1, 1, true)) == std::vector{TensorSpec({2, 3}, DType::f32)});
  CHECK_FALSE(table.window(2).pipeline()->batch_size);
  CHECK(spec(table.unbatch()) == std::vector{TensorSpec({}, DType::f32)});
  CHECK(table.unbatch().cardinality() == 18);
  CHECK(spec(table.batch(4).unbatch()) == spec(table));
  CHECK_FALSE(table.batch(4).unbatch().pipeline()->batch_size);
  const auto made = table.map([](const Tensor& x) { return x; });
  CHECK(spec(made.unbatch()) == std::vector{TensorSpec::unknown()});
}

TEST_CASE("windows and rows that cannot be are refused", "[input][host]") {
  const auto dataset = Dataset::range(3);
  CHECK_THROWS_MATCHES(dataset.window(0), InvalidArgument, says("Dataset::window: windows of 0 elements"));
  CHECK_THROWS_MATCHES(dataset.window(2, 0), InvalidArgument, says("the shift is 0"));
  CHECK_THROWS_MATCHES(dataset.window(2, 1, -1), InvalidArgument, says("the stride -1"));
  CHECK_THROWS_MATCHES(dataset.window(kMost, 1, 2), InvalidArgument, says("span more than 2^63 - 1"));
  CHECK_THROWS_MATCHES(dataset.unbatch(), InvalidArgument,
                       says("Dataset::unbatch: a component of the elements is", "a scalar"));
}

TEST_CASE("windows, rows and numbers are distributed", "[input][host]") {
  MirroredStrategy strategy(test::host_devices(2));
  CHECK(test::all_steps(strategy.distribute_dataset(Dataset::range(5).window(2, 1, 1, true))) ==
        std::vector<std::vector<Values>>{{{0}, {1}}, {{1}, {2}}, {{2}, {3}}, {{3}, {4}}});
  CHECK(test::all_steps(strategy.distribute_dataset(Dataset::range(4).batch(3).unbatch().batch(4))) ==
        std::vector<std::vector<Values>>{{{0, 1}, {2, 3}}});
}

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/input_context.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

namespace combined_pipelines_test {
Dataset rows(std::int64_t width, DType dtype = DType::f32) {
  return Dataset::from_tensor_slices(Tensor::zeros({4, width}, dtype));
}

const std::vector<TensorSpec>& spec(const Dataset& dataset) { return dataset.pipeline()->spec; }
}  // namespace combined_pipelines_test

using combined_pipelines_test::rows;
using combined_pipelines_test::spec;

TEST_CASE("what is known of concatenated elements is what they have in common", "[input][host]") {
  CHECK(spec(rows(3).concatenate(rows(3))) == std::vector{TensorSpec({3}, DType::f32)});
  CHECK(spec(rows(3).concatenate(rows(5))) == std::vector{TensorSpec({std::nullopt}, DType::f32)});
  CHECK(spec(rows(3).concatenate(rows(3).batch(2))) == std::vector{TensorSpec::unknown()});
  const auto batches = rows(3).batch(2, true);
  CHECK(spec(batches.concatenate(batches)) == std::vector{TensorSpec({2, 3}, DType::f32)});
  CHECK(batches.concatenate(batches).pipeline()->batch_size == 2);
  CHECK_FALSE(batches.concatenate(rows(3).batch(4)).pipeline()->batch_size);
}

TEST_CASE("elements of different kinds are not concatenated", "[input][host]") {
  CHECK_THROWS_MATCHES(rows(3).concatenate(rows(3, DType::i64)), InvalidArgument,
                       says("Dataset::concatenate: component 0", "one dataset's elements is [3] float32",
                            "another's [3] int64"));
  const Tensor a = Tensor::zeros({4});
  CHECK_THROWS_MATCHES(Dataset(Dataset::from_tensor_slices(a, a)).concatenate(rows(3)), InvalidArgument,
                       says("the elements are lockstep::Tensor"));
  CHECK_THROWS_MATCHES(
      Dataset::from_tensor_slices(std::vector{a, a}).concatenate(Dataset::from_tensor_slices(std::vector{a})),
      InvalidArgument, says("one dataset have 2 components", "another 1"));
}

TEST_CASE("elements of other keys are not concatenated: at once, or where functions made them",
          "[input][host]") {
  using Named = std::map<std::string, Tensor>;
  const auto named = [](const std::string& key) {
    return Dataset::from_tensor_slices(Named{{key, Tensor::zeros({2})}});
  };
  CHECK_THROWS_MATCHES(named("x").concatenate(named("y")), InvalidArgument,
                       says("Dataset::concatenate: ", "{x: *}", "{y: *}", "Give all elements the same keys"));
  const auto made = [](const std::string& key) {
    return Dataset::range(2).map([key](const Tensor& x) { return Named{{key, x}}; });
  };
  for (const auto& dataset : {made("x").concatenate(made("y")), named("x").concatenate(made("y"))}) {
    auto pass = dataset.pipeline()->open();
    CHECK(pass->next());
    CHECK(pass->next());
    for (int i = 0; i < 2; ++i)
      CHECK_THROWS_MATCHES(
          pass->next(), InvalidArgument,
          says("Dataset::concatenate: ", "{x: *}", "{y: *}", "Give all elements the same keys"));
    CHECK_FALSE(pass->next());
  }
}

TEST_CASE("zipped datasets are concatenated with others of the same elements", "[input][host]") {
  const auto range = Dataset::range(2);
  const auto zipped = Dataset::zip(range, range);
  const auto pairs = range.map([](const Tensor& x) { return std::tuple(x, x); });
  using Named = std::map<std::string, Tensor>;
  const auto named = [&](const std::string& key) {
    return range.map([key](const Tensor& x) { return Named{{key, x}}; });
  };
  const auto count = [](const Dataset& dataset) {
    int num_elements = 0;
    for (auto pass = dataset.pipeline()->open(); pass->next();) ++num_elements;
    return num_elements;
  };
  CHECK(count(zipped.concatenate(pairs)) == 4);
  CHECK(count(pairs.concatenate(zipped)) == 4);
  CHECK(count(zipped.concatenate(zipped.map([](Tensor a, Tensor b) { return std::tuple(a, b); }))) == 4);
  const auto both = [&](const std::string& a, const std::string& b) {
    return range.map([=](const Tensor& x) { return std::tuple(Named{{a, x}}, Named{{b, x}}); });
  };
  CHECK(count(Dataset::zip(named("a"), named("b")).concatenate(both("a", "b"))) == 4);
  auto pass = Dataset::zip(named("a"), named("b")).concatenate(both("a", "c")).pipeline()->open();
  CHECK(pass->next());
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("({a: *}, {b: *})", "({a: *}, {c: *})"));
}

TEST_CASE("keys with the signs of the structure's text are not taken for others", "[input][host]") {
  using Named = std::map<std::string, Tensor>;
  const Tensor rows = Tensor::zeros({2});
  const auto one = Dataset::from_tensor_slices(Named{{"a: *, b", rows}});
  const auto two = Dataset::from_tensor_slices(Named{{"a", rows}, {"b", rows}});
  const auto made = [](const auto& dataset) { return dataset.map([](const Named& x) { return x; }); };
  CHECK_THROWS_AS(one.concatenate(two), InvalidArgument);
  auto pass = made(one).concatenate(made(two)).pipeline()->open();
  CHECK(pass->next());
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("{a\\: *, b: *}", "{a: *, b: *}"));
}

TEST_CASE("a long chain of datasets is concatenated and read", "[input][host]") {
  const auto made = Dataset::range(2).map([](const Tensor& x) { return std::vector<Tensor>{x}; });
  auto chain = made.take(0);
  constexpr int kNumParts = 1000;
  for (int i = 0; i < kNumParts; ++i) chain = chain.concatenate(made);
  auto pass = chain.pipeline()->open();
  int num_elements = 0;
  while (const auto element = pass->next()) CHECK(element->at(0).item<std::int64_t>() == num_elements++ % 2);
  CHECK(num_elements == 2 * kNumParts);
}

TEST_CASE("what is known of zipped elements is what is known of each", "[input][host]") {
  const auto batches = Dataset::range(6).batch(2, true);
  const auto zipped = Dataset::zip(batches, Dataset::range(6).batch(2));
  CHECK(spec(zipped) == std::vector{TensorSpec({2}, DType::i64), TensorSpec({std::nullopt}, DType::i64)});
  CHECK(zipped.pipeline()->batch_size == 2);
  CHECK_FALSE(Dataset::zip(batches, Dataset::range(6).batch(3)).pipeline()->batch_size);
  const auto lists = Dataset::range(2).map([](const Tensor& x) { return std::vector{x}; });
  CHECK(spec(Dataset::zip(Dataset::range(2), lists)).empty());
}

TEST_CASE("datasets that cannot be chosen from, or sampled, are refused", "[input][host]") {
  using Datasets = std::vector<TypedDataset<Tensor>>;
  const Datasets two{Dataset::range(3), Dataset::range(4)};
  const auto sample = [](const Datasets& datasets, const std::vector<double>& weights) {
    return Dataset::sample_from_datasets(datasets, weights);
  };
  CHECK_THROWS_MATCHES(sample({}, {}), InvalidArgument,
                       says("Dataset::sample_from_datasets: there are no datasets"));
  CHECK_THROWS_MATCHES(sample(two, {1.0}), InvalidArgument, says("1 weights for 2 datasets"));
  CHECK_THROWS_MATCHES(sample(two, {1.0, -0.5}), InvalidArgument, says("weight 1 is -0.5"));
  CHECK_THROWS_MATCHES(sample(two, {NAN, 1.0}), InvalidArgument, says("weight 0 is nan"));
  CHECK_THROWS_MATCHES(sample(two, {0.0, 0.0}), InvalidArgument, says("the weights' sum is 0"));
  CHECK_THROWS_MATCHES(sample(two, {1e308, 1e308}), InvalidArgument, says("the weights' sum is inf"));
  CHECK_THROWS_MATCHES(sample(two, {1.0, 1e-17}), InvalidArgument, says("weight 1, 1e-17, is too small"));
  CHECK_THROWS_MATCHES(Dataset::choose_from_datasets(Datasets{}, Dataset::range(1)), InvalidArgument,
                       says("Dataset::choose_from_datasets: there are no datasets"));
  const Datasets mixed{Dataset::range(3), Dataset::from_tensor_slices(Tensor::zeros({3}))};
  CHECK_THROWS_MATCHES(sample(mixed, {}), InvalidArgument,
                       says("Dataset::sample_from_datasets: component 0", "int64", "float32"));
}

TEST_CASE("what is known of samples is what the datasets have in common", "[input][host]") {
  using Datasets = std::vector<TypedDataset<Tensor>>;
  const auto table = [](std::int64_t rows, std::int64_t width) {
    return Dataset::from_tensor_slices(Tensor::zeros({rows, width}));
  };
  CHECK(spec(Dataset::sample_from_datasets(Datasets{table(4, 3), table(2, 3)})) ==
        std::vector{TensorSpec({3}, DType::f32)});
  const auto ragged = Dataset::sample_from_datasets(Datasets{table(4, 3), table(2, 5)});
  CHECK(spec(ragged) == std::vector{TensorSpec({std::nullopt}, DType::f32)});
  CHECK(ragged.cardinality() == 6);
  CHECK(Dataset::sample_from_datasets(Datasets{table(4, 3), table(2, 3)}, {}, {}, true).cardinality() ==
        Dataset::unknown_cardinality);
  CHECK(Dataset::sample_from_datasets(Datasets{table(4, 3).repeat(), table(2, 3)}).cardinality() ==
        Dataset::infinite_cardinality);
  CHECK(Dataset::sample_from_datasets(Datasets{table(4, 3), table(2, 3)}, {1, 0}).cardinality() == 4);
}

TEST_CASE("shares of a sampled dataset are the whole, and need a seed", "[input][host]") {
  using Datasets = std::vector<TypedDataset<Tensor>>;
  const auto share = [](std::optional<std::uint64_t> seed, int index) {
    const auto dataset =
        Dataset::sample_from_datasets(Datasets{Dataset::range(5), Dataset::range(10, 14)}, {}, seed);
    return auto_shard(dataset, InputContext(2, index, 2), AutoShardPolicy::data);
  };
  test::Values all = test::flat_elements(share(3, 0)), rest = test::flat_elements(share(3, 1));
  all.insert(all.end(), rest.begin(), rest.end());
  std::ranges::sort(all);
  CHECK(all == test::Values{0, 1, 2, 3, 4, 10, 11, 12, 13});
  CHECK_THROWS_MATCHES(test::flat_elements(share({}, 0)), InvalidArgument,
                       says("Dataset::sample_from_datasets: there is no seed"));
}

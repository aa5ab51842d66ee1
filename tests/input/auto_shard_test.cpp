#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/readers.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/one_device_strategy.hpp>

#include "input/distribution/splitting.hpp"
#include "input/iterators/iterators.hpp"
#include "support/captured_stderr.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/parts.hpp"

using namespace lockstep;
using test::all_elements;
using test::all_steps;
using test::flat_elements;
using test::host_devices;
using test::says;
using test::Values;

namespace auto_shard_test {
/// Files "0", "1", … of one element each: their number.
TypedDataset<Tensor> files(int num_files) {
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < num_files; ++i) paths.emplace_back(std::to_string(i));
  return Dataset::from_files(std::move(paths), [](const std::filesystem::path& path) {
    return [path, read = false]() mutable {
      return std::exchange(read, true)
                 ? std::nullopt
                 : std::optional(Tensor::scalar(std::int64_t{std::stoi(path.string())}));
    };
  });
}

/// A worker's share, its warnings left out.
Values shard(const TypedDataset<Tensor>& dataset, int num_workers, int worker,
             AutoShardPolicy policy = AutoShardPolicy::automatic) {
  std::optional<Dataset> share;
  test::captured_stderr(
      [&] { share.emplace(auto_shard(dataset, InputContext(num_workers, worker, num_workers), policy)); });
  return flat_elements(*share);
}
}  // namespace auto_shard_test

using auto_shard_test::files;
using auto_shard_test::shard;

TEST_CASE("a share with an element fails where another has none, which just ends", "[input][host]") {
  CHECK_THROWS_MATCHES(shard(Dataset::range(5), 10, 0), InvalidArgument,
                       says("auto_shard: the dataset has fewer than 10 elements"));
  CHECK_THROWS_AS(shard(Dataset::range(5), 10, 4), InvalidArgument);
  CHECK(shard(Dataset::range(5), 10, 5).empty());
  CHECK(shard(Dataset::range(5), 10, 9).empty());
  CHECK(shard(Dataset::range(0), 10, 0).empty());
  CHECK(shard(Dataset::range(5), 5, 4) == Values{4});
  CHECK(shard(Dataset::range(5), 3, 2) == Values{2});
  CHECK(shard(Dataset::range(11), 5, 0) == Values{0, 5, 10});
  CHECK(shard(Dataset::range(11), 5, 3) == Values{3, 8});
}

TEST_CASE("shard-more-workers-than-files: one without a file just ends", "[input][host][conformance]") {
  CHECK(shard(files(10), 500, 499, AutoShardPolicy::file).empty());
  CHECK_THROWS_MATCHES(shard(files(10), 500, 9, AutoShardPolicy::file), InvalidArgument,
                       says("auto_shard: 10 files for 500 input pipelines"));
  CHECK(shard(files(0), 3, 0, AutoShardPolicy::file).empty());
  auto pass = auto_shard(files(1), InputContext(2, 0, 2), AutoShardPolicy::file).pipeline()->open();
  CHECK_THROWS_AS(pass->next(), InvalidArgument);
  CHECK_FALSE(pass->next());
}

TEST_CASE("files are shared out below every transformation", "[input][host]") {
  const auto same = [](const Tensor& x) { return x; };
  const auto is_small = [](const Tensor& x) { return x.item<std::int64_t>() < 100; };
  const auto one = [](const Tensor& x) { return Dataset::from_tensor_slices(x.reshape({1})); };
  const auto read = files(9)
                        .map(same)
                        .map(same, {.num_parallel_calls = 2})
                        .filter(is_small)
                        .cache()
                        .prefetch(2)
                        .interleave(one, 1)
                        .shuffle(1, 1)
                        .take(9)
                        .skip(0)
                        .repeat(1)
                        .shard(1, 0)
                        .batch(2);
  CHECK(shard(read, 3, 1) == Values{1, 4, 7});
  CHECK(shard(read, 3, 2) == Values{2, 5, 8});
  CHECK(shard(read, 1, 0) == test::sequence(0, 9));
  CHECK(shard(files(4).concatenate(files(3)), 2, 1) == Values{1, 3, 1});
  const auto zipped = Dataset::zip(files(4), files(5));
  CHECK(flat_elements(auto_shard(zipped, InputContext(2, 1, 2)), 1) == Values{1, 3});
}

TEST_CASE("a dataset that does not read files alone has none to share out", "[input][host]") {
  CHECK_THROWS_MATCHES(shard(Dataset::range(4), 2, 0, AutoShardPolicy::file), NotFound,
                       says("auto_shard: the dataset does not come from from_files alone",
                            "2 input pipelines", "AutoShardPolicy::data"));
  CHECK_THROWS_AS(shard(files(4).concatenate(Dataset::range(4)), 2, 0, AutoShardPolicy::file), NotFound);
  CHECK(shard(files(4).concatenate(Dataset::range(4)), 2, 0) == Values{0, 2, 0, 2});
  CHECK(shard(Dataset::range(4), 1, 0, AutoShardPolicy::file) == test::sequence(0, 4));
  CHECK(shard(files(4), 2, 1, AutoShardPolicy::data) == Values{1, 3});
  CHECK(shard(files(3), 2, 1, AutoShardPolicy::hint) == Values{0, 1, 2});
}

TEST_CASE("each dataset's fall-back to data is told", "[input][host]") {
  const auto numbers = Dataset::range(4);
  const std::string told = test::captured_stderr([&] {
    static_cast<void>(auto_shard(numbers, InputContext(2, 0, 2)));
    static_cast<void>(auto_shard(numbers.batch(2), InputContext(2, 0, 2)));
  });
  CHECK(std::count(told.begin(), told.end(), '\n') == 2);
}

namespace auto_shard_test {
constexpr std::int64_t kHint = Dataset::shard_hint;

/// What a worker reads, by the user's own sharding.
Values hinted(const TypedDataset<Tensor>& dataset, int num_workers, int worker) {
  return shard(dataset, num_workers, worker, AutoShardPolicy::hint);
}
}  // namespace auto_shard_test

using auto_shard_test::hinted;
using auto_shard_test::kHint;

TEST_CASE("a hint in the user's pipeline is the worker's shard", "[input][host]") {
  const auto numbers = Dataset::range(6).shard(kHint, kHint);
  CHECK(hinted(numbers, 3, 1) == Values{1, 4});
  CHECK(hinted(numbers, 1, 0) == test::sequence(0, 6));
  CHECK(hinted(Dataset::range(6), 3, 1) == test::sequence(0, 6));
  // Fewer elements than workers: the user's own shards just end.
  CHECK(hinted(Dataset::range(1).shard(kHint, kHint), 3, 0) == Values{0});
  const auto elements = files(6).shard(kHint, kHint);
  CHECK(hinted(elements, 2, 1) == Values{1, 3, 5});
}

TEST_CASE("a hint is found below every transformation", "[input][host]") {
  const auto same = [](const Tensor& x) { return x; };
  const auto is_small = [](const Tensor& x) { return x.item<std::int64_t>() < 100; };
  const auto one = [](const Tensor& x) { return Dataset::from_tensor_slices(x.reshape({1})); };
  const auto numbers = Dataset::range(9).shard(kHint, kHint);
  const auto read = numbers.map(same)
                        .map(same, {.num_parallel_calls = 2})
                        .filter(is_small)
                        .cache()
                        .prefetch(2)
                        .interleave(one, 1)
                        .shuffle(1, 1)
                        .take(9)
                        .skip(0)
                        .repeat(1)
                        .shard(1, 0)
                        .batch(2);
  CHECK(hinted(read, 3, 1) == Values{1, 4, 7});
  CHECK(hinted(numbers.shard(kHint, kHint), 3, 1) == Values{4});
  CHECK(hinted(numbers.concatenate(Dataset::range(2)), 3, 2) == Values{2, 5, 8, 0, 1});
  CHECK(hinted(Dataset::range(2).concatenate(numbers), 3, 2) == Values{0, 1, 2, 5, 8});
  const auto zipped = Dataset::zip(Dataset::range(9), numbers);
  CHECK(flat_elements(auto_shard(zipped, InputContext(3, 1, 3), AutoShardPolicy::hint), 1) ==
        Values{1, 4, 7});
}

TEST_CASE("a hint is found in the datasets that interleave's function makes", "[input][host]") {
  const auto inner = Dataset::range(4).shard(kHint, kHint);
  const auto within = Dataset::range(2).interleave([inner](const Tensor&) { return inner; }, 1);
  CHECK(hinted(within, 2, 1) == Values{1, 3, 1, 3});
  CHECK(hinted(within.batch(3).prefetch(1), 2, 0) == Values{0, 2, 0, 2});
  // Deeper, and where the elements are shared out too.
  const auto deeper =
      Dataset::range(3).shard(kHint, kHint).interleave([within](const Tensor&) { return within; }, 1);
  CHECK(hinted(deeper, 2, 0) == Values{0, 2, 0, 2, 0, 2, 0, 2});
  CHECK(hinted(deeper, 2, 1) == Values{1, 3, 1, 3});
  // Where lengths are learned from elements.
  const auto lists = Dataset::range(1).interleave(
      [inner](const Tensor&) { return inner.map([](const Tensor& x) {
                                 return std::vector{x, x};
                               }); }, 1);
  CHECK(hinted(lists.map([](const std::vector<Tensor>& x) { return x[1]; }), 2, 1) == Values{1, 3});
  // It is answered once.
  const auto told = auto_shard(within, InputContext(2, 1, 2), AutoShardPolicy::hint);
  CHECK(hinted(told, 2, 0) == Values{1, 3, 1, 3});
  CHECK_THROWS_AS(flat_elements(within), ContextError);
}

TEST_CASE("a hint that nobody answers is an error of each pass", "[input][host]") {
  const auto numbers = Dataset::range(6).shard(kHint, kHint);
  auto pass = numbers.pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), ContextError,
                       says("Dataset::shard(shard_hint, shard_hint)", "AutoShardPolicy::hint"));
  CHECK_THROWS_AS(flat_elements(numbers.batch(2)), ContextError);
  CHECK_THROWS_AS(shard(numbers, 2, 0), ContextError);
  CHECK_THROWS_AS(shard(numbers, 1, 0), ContextError);
  CHECK_THROWS_AS(shard(files(6).shard(kHint, kHint), 2, 0, AutoShardPolicy::file), ContextError);
  CHECK_THROWS_AS(Dataset::range(6).shard(kHint, 0), InvalidArgument);
  CHECK_THROWS_AS(Dataset::range(6).shard(2, kHint), InvalidArgument);
}

TEST_CASE("distribute_dataset answers hints: all of the data is this process's", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto batches = Dataset::range(4).shard(kHint, kHint).batch(4);
  CHECK(all_steps(strategy.distribute_dataset(batches, {.auto_shard_policy = AutoShardPolicy::hint})) ==
        std::vector<std::vector<Values>>{{{0, 1}, {2, 3}}});
  CHECK_THROWS_AS(all_steps(strategy.distribute_dataset(batches)), ContextError);
}

TEST_CASE("a dataset that reads files is split in balanced slices", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  // 14 rows, 8 a batch: 4 4 / 4 2, where ceiling slices are 4 4 / 3 3.
  CHECK(all_steps(strategy.distribute_dataset(files(14).batch(8))).at(1) ==
        std::vector<Values>{{8, 9, 10, 11}, {12, 13}});
  CHECK(
      all_steps(strategy.distribute_dataset(files(14).batch(8), {.auto_shard_policy = AutoShardPolicy::data}))
          .at(1) == std::vector<Values>{{8, 9, 10}, {11, 12, 13}});
}

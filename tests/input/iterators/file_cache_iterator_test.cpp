#include "input/iterators/file_cache_iterator.hpp"

#include <set>
#include <stdexcept>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/captured_stderr.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::flat_elements;
using test::says;
using test::sequence;
using test::TemporaryDirectory;
using test::Values;

namespace file_cache_pass_test {
/// 0, 1, … below 5, counted as they are made.
TypedDataset<Tensor> counted(const std::shared_ptr<int>& count) {
  return Dataset::range(5).map([count](const Tensor& x) {
    ++*count;
    return x;
  });
}

using Labelled = std::map<std::string, std::vector<Tensor>>;

Labelled label(const Tensor& x) { return {{"twice", {x, x}}, {"once", {x.cast(DType::f16)}}}; }

/// The same elements' type, with no elements and nothing known of them.
TypedDataset<Labelled> nothing() {
  return Dataset::from_generator([] { return [] { return std::optional<Labelled>(); }; });
}
}  // namespace file_cache_pass_test

using namespace file_cache_pass_test;

TEST_CASE("a cache in a file reads its input once, also for later datasets", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto count = std::make_shared<int>(0);
  const TypedDataset<Tensor> cache = counted(count).cache(directory / "cache");
  CHECK(*count == 0);
  CHECK(directory.names().empty());
  for (int pass = 0; pass < 3; ++pass) CHECK(flat_elements(cache) == sequence(0, 5));
  CHECK(flat_elements(cache.repeat(2).batch(2)) == Values{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
  CHECK(*count == 5);
  CHECK(directory.names() == std::set<std::string>{"cache"});
  CHECK(flat_elements(counted(count).cache(directory / "cache")) == sequence(0, 5));
  CHECK(*count == 5);
  CHECK(flat_elements(Dataset::range(0).cache(directory / "none").repeat()).empty());
}

TEST_CASE("the file is made again after it was deleted", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto cache = Dataset::range(2).cache(directory / "cache");
  CHECK(flat_elements(cache) == Values{0, 1});
  std::filesystem::remove(directory / "cache");
  CHECK(flat_elements(cache) == Values{0, 1});
  CHECK(directory.names() == std::set<std::string>{"cache"});
}

TEST_CASE("elements keep their lengths, keys and dtypes in a file", "[input][cache][host]") {
  const TemporaryDirectory directory;
  CHECK(flat_elements(Dataset::range(3).map(label).cache(directory / "cache"), 1) == Values{0, 1, 2});
  // As a program that has not seen any element yet.
  const auto read = Dataset::range(3).map(label).cache(directory / "cache").map([](const Labelled& x) {
    return std::tuple(x.at("twice")[1], x.at("once")[0]);
  });
  CHECK(flat_elements(read, 0) == Values{0, 1, 2});
  const auto element = read.pipeline()->open()->next();
  CHECK(element->at(1).dtype() == DType::f16);
}

TEST_CASE("a file caches zipped datasets and records of one type", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto zipped = Dataset::zip(Dataset::range(3).map(label), Dataset::range(5));
  for (int pass = 0; pass < 2; ++pass)
    CHECK(flat_elements(zipped.cache(directory / "cache"), 3) == Values{0, 1, 2});
  const auto slices =
      Dataset::from_tensor_slices(std::map<std::string, Tensor>{{"x", test::vector_of({4, 5})}});
  for (int pass = 0; pass < 2; ++pass) CHECK(flat_elements(slices.cache(directory / "map")) == Values{4, 5});
  CHECK(slices.cache(directory / "map").pipeline()->type.num_leaves == 1);
}

TEST_CASE("a pass that does not end, or that throws, leaves no file", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto count = std::make_shared<int>(0);
  CHECK(flat_elements(counted(count).cache(directory / "cache").take(3)) == sequence(0, 3));
  CHECK(directory.names().empty());

  const auto fails = std::make_shared<bool>(true);
  const auto cache = Dataset::range(3)
                         .map([fails](const Tensor& x) {
                           if (*fails && x.item<std::int64_t>() == 1) throw std::runtime_error("bad");
                           return x;
                         })
                         .cache(directory / "cache");
  auto pass = cache.pipeline()->open();
  CHECK(pass->next());
  CHECK(directory.names().size() == 1);
  CHECK_THROWS_AS(pass->next(), Error);
  CHECK(directory.names().empty());
  CHECK(test::all_elements(*pass) == std::vector<Values>{{2}});
  CHECK(directory.names().empty());
  *fails = false;
  CHECK(flat_elements(cache) == sequence(0, 3));
  CHECK(directory.names() == std::set<std::string>{"cache"});
}

TEST_CASE("passes that make the file together each make it whole", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto cache = Dataset::range(3).cache(directory / "cache");
  auto first = cache.pipeline()->open(), second = cache.pipeline()->open();
  for (int i = 0; i < 3; ++i) {
    CHECK(first->next());
    CHECK(second->next());
  }
  CHECK_FALSE(first->next());
  auto reading = cache.pipeline()->open();
  CHECK(reading->next());
  CHECK_FALSE(second->next());  // replaces the file that is being read
  CHECK(test::all_elements(*reading) == std::vector<Values>{{1}, {2}});
  CHECK_FALSE(first->next());
  CHECK(directory.names() == std::set<std::string>{"cache"});
}

TEST_CASE("a damaged cache is refused where it is damaged, and the pass ends", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "cache";
  const auto cache = Dataset::range(100).cache(path);
  flat_elements(cache);
  const std::string bytes = test::read_bytes(path);
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  test::write_bytes(path, damaged);
  auto pass = cache.pipeline()->open();
  const auto read_all = [&] { test::all_elements(*pass); };
  CHECK_THROWS_MATCHES(
      read_all(), InvalidArgument,
      says("Dataset::cache: ", path.string(), ", byte ", "Delete the file to make it again"));
  CHECK_FALSE(pass->next());

  test::write_bytes(path, bytes.substr(0, bytes.size() - 1));
  pass = cache.pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says(path.string(), "the file was cut short or changed"));
  CHECK_FALSE(pass->next());
  CHECK(test::read_bytes(path).size() == bytes.size() - 1);  // not replaced
}

TEST_CASE("a cache of other elements is refused", "[input][cache][host]") {
  const TemporaryDirectory directory;
  flat_elements(Dataset::range(3).cache(directory / "cache"));
  const auto pairs = Dataset::zip(Dataset::range(3), Dataset::range(3)).cache(directory / "cache");
  CHECK_THROWS_MATCHES(flat_elements(pairs), InvalidArgument,
                       says((directory / "cache").string(),
                            " has the elements of another dataset, whose call 2 is none, but of this "
                            "one 'range(0, 3, 1)'",
                            "Delete the file to make it again"));
  CHECK_THROWS_MATCHES(flat_elements(nothing().cache(directory / "cache")), InvalidArgument,
                       says("whose call 1 is 'range(0, 3, 1)', but of this one 'from_generator"));
  const auto rows = [&](std::int64_t width, DType dtype) {
    return Dataset::from_tensor_slices(Tensor::zeros({3, width}, dtype)).cache(directory / "rows");
  };
  CHECK(flat_elements(rows(2, DType::i64)) == Values(6));
  CHECK_THROWS_MATCHES(flat_elements(rows(3, DType::i64)), InvalidArgument,
                       says("whose call 1 is 'from_tensor_slices([3, 2] int64)', but of this one "
                            "'from_tensor_slices([3, 3] int64)'"));
  CHECK_THROWS_MATCHES(flat_elements(rows(2, DType::f32)), InvalidArgument, says("another dataset"));
  CHECK_THROWS_MATCHES(flat_elements(Dataset::from_tensor_slices(Tensor::zeros({3, 2}, DType::i64))
                                         .batch(2, true)
                                         .as<Tensor>()
                                         .cache(directory / "rows")),
                       InvalidArgument,
                       says("whose call 2 is none, but of this one 'batch(2, drop_remainder)'"));
  const auto keys = [&](const std::string& key) {
    return Dataset::from_tensor_slices(std::map<std::string, Tensor>{{key, test::vector_of({1})}})
        .cache(directory / "keys");
  };
  CHECK(flat_elements(keys("x")) == Values{1});
  const auto two_keys = [&](const std::filesystem::path& path) {
    const Tensor column = test::vector_of({1});
    return Dataset::from_tensor_slices(std::map<std::string, Tensor>{{"a", column}, {"b", column}})
        .cache(path);
  };
  CHECK(flat_elements(two_keys(directory / "two")) == Values{1});
  CHECK_THROWS_MATCHES(flat_elements(Dataset::from_tensor_slices(
                                         std::map<std::string, Tensor>{{"a: *, b", test::vector_of({1})}})
                                         .cache(directory / "two")),
                       InvalidArgument, says("another dataset"));
  CHECK_THROWS_MATCHES(flat_elements(keys("y")), InvalidArgument,
                       says("the elements in it have other lengths or keys than the dataset's type"));
}

TEST_CASE("a cache that is refused leaves open what the elements are", "[input][cache][host]") {
  const TemporaryDirectory directory;
  flat_elements(Dataset::range(3).map(label).cache(directory / "cache"), 1);
  const auto other = Dataset::from_generator([] {
                       return [next = std::int64_t{0}]() mutable -> std::optional<Labelled> {
                         if (next == 3) return std::nullopt;
                         Labelled element;
                         element["twice"].push_back(Tensor::scalar(next++));
                         return element;
                       };
                     }).cache(directory / "cache");
  CHECK_THROWS_MATCHES(flat_elements(other), InvalidArgument, says("another dataset"));
  std::filesystem::remove(directory / "cache");
  for (int pass = 0; pass < 2; ++pass) CHECK(flat_elements(other) == sequence(0, 3));
}

TEST_CASE("a cache whose folder is not there, or that is no file, is refused", "[input][cache][host]") {
  const TemporaryDirectory directory;
  CHECK_THROWS_MATCHES(Dataset::range(3).cache(""), InvalidArgument,
                       says("Dataset::cache: the path is empty. Name a file."));
  auto pass = Dataset::range(3).cache(directory.path() / "no" / "cache").pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), NotFound, says("Dataset::cache: ", "there is no folder"));
  CHECK_FALSE(pass->next());
  CHECK_THROWS_MATCHES(flat_elements(Dataset::range(3).cache(directory.path())), InvalidArgument,
                       says("it is not a regular file"));
}

TEST_CASE("what killed programs left of their files goes when the cache is made", "[input][cache][host]") {
  const TemporaryDirectory directory;
  test::write_bytes(directory / ".lockstep-1-1.tmp", "left");
  flat_elements(Dataset::range(3).cache(directory / "cache"));
  CHECK(directory.names() == std::set<std::string>{"cache"});
}

TEST_CASE("each share of files, and each hinted shard, has a file of its own", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto files = Dataset::from_files({"0", "1", "2", "3"}, [](const std::filesystem::path& path) {
    return [path, read = false]() mutable {
      return std::exchange(read, true)
                 ? std::nullopt
                 : std::optional(Tensor::scalar(std::int64_t{std::stoi(path.string())}));
    };
  });
  const auto cache = files.cache(directory / "cache");
  for (int pass = 0; pass < 2; ++pass)
    for (int worker = 0; worker < 2; ++worker)
      CHECK(flat_elements(auto_shard(cache, InputContext(2, worker, 2))) == Values{worker, worker + 2});
  CHECK(directory.names() == std::set<std::string>{"cache.0-of-2", "cache.1-of-2"});
  const auto hinted =
      Dataset::range(4).shard(Dataset::shard_hint, Dataset::shard_hint).cache(directory / "hint");
  for (int pass = 0; pass < 2; ++pass)
    CHECK(flat_elements(auto_shard(hinted, InputContext(2, 1, 2), AutoShardPolicy::hint)) == Values{1, 3});
  CHECK(flat_elements(auto_shard(hinted, InputContext(1, 0, 1), AutoShardPolicy::hint)) == sequence(0, 4));
  CHECK(directory.names() == std::set<std::string>{"cache.0-of-2", "cache.1-of-2", "hint", "hint.1-of-2"});
}

TEST_CASE("a cache does not depend on how many threads make its elements", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto cached = [&](int num_calls) {
    return Dataset::range(5)
        .map([](const Tensor& x) { return x; }, {.num_parallel_calls = num_calls})
        .prefetch(num_calls)
        .cache(directory / "cache");
  };
  CHECK(flat_elements(cached(1)) == sequence(0, 5));
  CHECK(flat_elements(cached(3)) == sequence(0, 5));
  CHECK_THROWS_MATCHES(
      flat_elements(Dataset::range(5).filter([](const Tensor&) { return true; }).cache(directory / "cache")),
      InvalidArgument, says("whose call 2 is 'map', but of this one 'filter'"));
  CHECK(flat_elements(Dataset::range(0).cache(directory / "empty")).empty());
  CHECK_THROWS_MATCHES(flat_elements(Dataset::range(1).cache(directory / "empty")), InvalidArgument,
                       says("another dataset"));
}

TEST_CASE("the log says once that a pass has left no file", "[input][cache][host]") {
  const TemporaryDirectory directory;
  const auto cache = Dataset::range(5).cache(directory / "cache");
  const std::string told = test::captured_stderr([&] {
    for (int pass = 0; pass < 2; ++pass) CHECK(flat_elements(cache.take(3)) == sequence(0, 3));
    CHECK(flat_elements(cache) == sequence(0, 5));
  });
  CHECK(told.find("a pass was dropped after 3 elements, before it came to its end, so there is no file") !=
        std::string::npos);
  CHECK(told.find("dropped") == told.rfind("dropped"));
}

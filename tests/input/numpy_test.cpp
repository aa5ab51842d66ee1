#include <map>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/numpy.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::all_elements;
using test::flat_elements;
using test::says;
using test::Values;
using test::vector_of;

using Pair = std::tuple<Tensor, Tensor>;

TEST_CASE("numpy-list-is-stacked: a list is one array, a tuple goes together", "[input][host][conformance]") {
  MirroredStrategy strategy(test::host_devices(2));
  const Tensor a = vector_of({1, 2, 3}), b = vector_of({4, 5, 6});
  const TypedDataset<Tensor> list = strategy.make_numpy_dataset(std::vector{a, b});
  CHECK(all_elements(list) == std::vector<Values>{{1, 2, 3}, {4, 5, 6}});
  const TypedDataset<Pair> tuple = strategy.make_numpy_dataset(std::tuple{a, b});
  CHECK(all_elements(tuple, 0) == std::vector<Values>{{1}, {2}, {3}});
  CHECK(all_elements(tuple, 1) == std::vector<Values>{{4}, {5}, {6}});
}

TEST_CASE("lists inside a nest are stacked as well", "[input][host]") {
  const Tensor a = vector_of({1, 2, 3}), b = vector_of({4, 5});
  const TypedDataset<Pair> tuple = detail::make_numpy_dataset(std::tuple{std::vector{a, a}, b});
  CHECK(all_elements(tuple, 0) == std::vector<Values>{{1, 2, 3}, {1, 2, 3}});
  CHECK(flat_elements(tuple, 1) == Values{4, 5});
  const TypedDataset<std::pair<Tensor, Tensor>> pair =
      detail::make_numpy_dataset(std::pair{b, std::vector{b, b}});
  CHECK(all_elements(pair, 1) == std::vector<Values>{{4, 5}, {4, 5}});
  const TypedDataset<std::map<std::string, Tensor>> map =
      detail::make_numpy_dataset(std::map<std::string, std::vector<Tensor>>{{"x", {a}}, {"y", {b}}});
  CHECK(all_elements(map, 1) == std::vector<Values>{{4, 5}});
  const TypedDataset<std::array<Tensor, 2>> array = detail::make_numpy_dataset(std::array{b, b});
  CHECK(flat_elements(array, 1) == Values{4, 5});
}

TEST_CASE("arrays are copied once, when the dataset is made", "[input][host]") {
  Tensor source = vector_of({1, 2});
  const auto dataset = detail::make_numpy_dataset(source);
  source.fill_(9);
  CHECK(flat_elements(dataset) == Values{1, 2});
  CHECK(flat_elements(detail::make_numpy_dataset(Tensor::zeros({0, 3}, DType::i64))).empty());
}

TEST_CASE("arrays without rows in common, and lists that cannot be stacked, are refused", "[input][host]") {
  const Tensor two = Tensor::zeros({2}), three = Tensor::zeros({3});
  CHECK_THROWS_MATCHES(detail::make_numpy_dataset(Tensor::scalar(1.0f)), InvalidArgument,
                       says("make_numpy_dataset: component 0 is a scalar"));
  CHECK_THROWS_MATCHES(detail::make_numpy_dataset(std::tuple{two, three}), InvalidArgument,
                       says("make_numpy_dataset: component 1, [3] float32", "3 rows"));
  CHECK_THROWS_MATCHES(detail::make_numpy_dataset(std::vector{two, three}), InvalidArgument,
                       says("make_numpy_dataset of a list: cannot stack [3] float32"));
  CHECK_THROWS_MATCHES(detail::make_numpy_dataset(std::vector<Tensor>()), InvalidArgument,
                       says("make_numpy_dataset of a list: there are no tensors to stack"));
}

TEST_CASE("a .npy file is a dataset of its rows", "[input][host]") {
  MirroredStrategy strategy(test::host_devices(2));
  const test::TemporaryFile file(test::npy_header("<i8", "(3, 2)") + test::bytes_of<std::int64_t>(1) +
                                 test::bytes_of<std::int64_t>(2) + test::bytes_of<std::int64_t>(3) +
                                 test::bytes_of<std::int64_t>(4) + test::bytes_of<std::int64_t>(5) +
                                 test::bytes_of<std::int64_t>(6));
  const Dataset dataset = strategy.make_numpy_dataset(file.path());
  CHECK(all_elements(dataset) == std::vector<Values>{{1, 2}, {3, 4}, {5, 6}});
  CHECK(test::all_steps(strategy.distribute_dataset(dataset.batch(3).as<Tensor>())) ==
        std::vector<std::vector<Values>>{{{1, 2, 3, 4}, {5, 6}}});
  CHECK_THROWS_MATCHES(dataset.as<Pair>(), InvalidArgument, says("the elements are lockstep::Tensor"));
}

TEST_CASE("a .npy file without rows, or without a file, is refused", "[input][host]") {
  const test::TemporaryFile scalar(test::npy_header("<i8", "()") + test::bytes_of<std::int64_t>(1));
  CHECK_THROWS_MATCHES(detail::make_numpy_dataset(scalar.path()), InvalidArgument,
                       says("make_numpy_dataset of ", scalar.path().string(), "component 0 is a scalar"));
  CHECK_THROWS_MATCHES(detail::make_numpy_dataset("missing.npy"), NotFound, says("missing.npy"));
}

TEST_CASE("a file that cannot be read is not taken for a .npy file", "[input][host]") {
  const test::TemporaryDirectory folder;
  CHECK_THROWS_MATCHES(detail::make_numpy_dataset(folder.path()), InvalidArgument,
                       says("make_numpy_dataset of ", folder.path().string(), "it is not a regular file"));
}

#include <cstdint>
#include <fstream>
#include <limits>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::says;
using test::Values;

namespace padded_pipelines_test {

std::int64_t size_of_element(const Tensor& x) { return x.size(); }
const std::vector<TensorSpec>& spec(const Dataset& dataset) { return dataset.pipeline()->spec; }
TypedDataset<Tensor> up_to(std::int64_t n) {
  return Dataset::range(n).map(
      [](const Tensor& x) { return Tensor::arange(x.item<std::int64_t>(), DType::i64, Device()); });
}

}  // namespace padded_pipelines_test

using padded_pipelines_test::size_of_element;
using padded_pipelines_test::spec;
using padded_pipelines_test::up_to;

TEST_CASE("what is known of padded batches", "[input][host]") {
  const auto table = Dataset::from_tensor_slices(Tensor::zeros({5, 3}));
  CHECK(spec(table.padded_batch(2)) == std::vector{TensorSpec({std::nullopt, std::nullopt}, DType::f32)});
  CHECK(spec(table.padded_batch(2, {.padded_shapes = {{4}}, .drop_remainder = true})) ==
        std::vector{TensorSpec({2, 4}, DType::f32)});
  CHECK_FALSE(table.padded_batch(2).pipeline()->batch_size);
  const auto buckets =
      table.bucket_by_sequence_length(size_of_element, {.boundaries = {4}, .batch_sizes = {2, 1}});
  CHECK(spec(buckets) == std::vector{TensorSpec({std::nullopt, std::nullopt}, DType::f32)});
  CHECK_FALSE(buckets.pipeline()->batch_size);
  CHECK(buckets.cardinality() == Dataset::unknown_cardinality);
}

TEST_CASE("padded batches are distributed", "[input][host]") {
  MirroredStrategy strategy(test::host_devices(2));
  CHECK(test::all_steps(strategy.distribute_dataset(up_to(4).padded_batch(2, {.padding_values = {-1}}))) ==
        std::vector<std::vector<Values>>{{{-1}, {0}}, {{0, 1, -1}, {0, 1, 2}}});
}

TEST_CASE("padded batches and buckets that cannot be are refused", "[input][host]") {
  const auto dataset = Dataset::range(4).batch(2);
  CHECK_THROWS_MATCHES(dataset.padded_batch(0), InvalidArgument, says("Dataset::padded_batch: batches of 0"));
  CHECK_THROWS_MATCHES(dataset.padded_batch(1, {.padded_shapes = {{-1}}}), InvalidArgument,
                       says("extent -1"));
  CHECK_THROWS_MATCHES(dataset.padded_batch(1, {.padded_shapes = {{1}, {1}}}), InvalidArgument,
                       says("2 padded shapes for elements of 1 components"));
  CHECK_THROWS_MATCHES(dataset.padded_batch(1, {.padding_values = {1, 2}}), InvalidArgument,
                       says("2 padding values for elements of 1 components"));
  const auto bucket = [&](const std::vector<std::int64_t>& boundaries,
                          const std::vector<std::int64_t>& sizes) {
    return dataset.bucket_by_sequence_length(size_of_element,
                                             {.boundaries = boundaries, .batch_sizes = sizes});
  };
  CHECK_THROWS_MATCHES(bucket({}, {1}), InvalidArgument,
                       says("Dataset::bucket_by_sequence_length: there are no boundaries"));
  CHECK_THROWS_MATCHES(bucket({3, 3}, {1, 1, 1}), InvalidArgument, says("do not ascend"));
  CHECK_THROWS_MATCHES(bucket({3}, {1}), InvalidArgument, says("1 batch sizes for 1 boundaries"));
  CHECK_THROWS_MATCHES(bucket({3}, {1, 0}), InvalidArgument, says("batches of 0 elements"));
}

TEST_CASE("padded batches of files are split alone, whatever their widths", "[input][host]") {
  const test::TemporaryDirectory folder;
  std::ofstream(folder.path() / "lines") << "a\nlong\nb";
  const auto lines =
      Dataset::from_files({folder.path() / "lines"}, readers::lines()).padded_batch(2).repeat(2);
  MirroredStrategy strategy(test::host_devices(2));
  std::vector<Shape> shapes;
  for (const PerReplica<Tensor>& step : strategy.distribute_dataset(lines))
    for (const Tensor& component : step) shapes.push_back(component.shape());
  CHECK(shapes == std::vector<Shape>{{1, 4}, {1, 4}, {1, 1}, {0, 1}, {1, 4}, {1, 4}, {1, 1}, {0, 1}});
}

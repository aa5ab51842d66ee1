// Examples of the documentation: datasets, alone and over replicas.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

TEST_CASE("the examples of datasets are right", "[docs]") {
  //! [Dataset, TypedDataset, Transformations]
  ls::TypedDataset<ls::Tensor> odd =
      ls::Dataset::range(100).filter([](const ls::Tensor& x) { return x.item<std::int64_t>() % 2 == 1; });
  auto batches = odd.shuffle(/*buffer_size=*/50, /*seed=*/1).batch(8).prefetch(2);
  std::int64_t sum = 0;
  for (const ls::Tensor& batch : batches) sum += ls::sum(batch).item<std::int64_t>();
  //! [Dataset, TypedDataset, Transformations]
  CHECK(sum == 2500);

  //! [DatasetIterator]
  ls::DatasetIterator<ls::Tensor> pass = odd.take(2).iterator();
  int num_elements = 0;
  while (std::optional<ls::Tensor> x = pass.next_optional()) ++num_elements;  // next() throws at the end
  //! [DatasetIterator]
  CHECK(num_elements == 2);

  //! [ParallelOptions]
  auto squares = ls::Dataset::range(100).map([](const ls::Tensor& x) { return x * x; },
                                             {.num_parallel_calls = 4, .deterministic = true});
  //! [ParallelOptions]
  CHECK(squares.skip(99).iterator().next().item<std::int64_t>() == 9801);

  //! [PaddedBatchOptions, BucketOptions]
  auto words = ls::Dataset::range(1, 5).map(
      [](const ls::Tensor& n) { return ls::Tensor::ones({n.item<std::int64_t>()}); });
  auto padded = words.padded_batch(2, {.padding_values = {-1}});  // [2, 2], then [2, 4]
  auto buckets = words.bucket_by_sequence_length(
      [](const ls::Tensor& word) { return word.size(); },
      {.boundaries = {3}, .batch_sizes = {2, 1}});  // below 3 in twos, the others alone
  //! [PaddedBatchOptions, BucketOptions]
  CHECK(padded.iterator().next().to_vector<float>() == std::vector<float>{1, -1, 1, 1});
  CHECK(buckets.iterator().next().shape() == ls::Shape{2, 2});
}

TEST_CASE("the examples of distributed datasets are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  //! [DistributedDataset, DistributedIterator]
  auto dataset = ls::Dataset::from_tensor_slices(ls::Tensor::arange(10)).batch(4);
  ls::DistributedDataset<ls::PerReplica<ls::Tensor>> distributed = strategy.distribute_dataset(dataset);
  ls::DistributedIterator<ls::PerReplica<ls::Tensor>> pass = distributed.iterator();
  ls::PerReplica<ls::Tensor> first = pass.next();  // rows 0 and 1, rows 2 and 3
  std::int64_t rows = 0;
  for (const auto& batch : distributed) rows += strategy.num_rows(batch);  // a fresh pass: 10
  //! [DistributedDataset, DistributedIterator]
  CHECK(first[1].to_vector<int>() == std::vector<int>{2, 3});
  CHECK(rows == 10);

  //! [TensorSpec]
  auto spec = distributed.element_spec();     // a spec for each replica
  bool has_known_rows = spec[0].is_static();  // false: the last batch has 2
  //! [TensorSpec]
  CHECK_FALSE(has_known_rows);

  //! [InputContext, InputOptions]
  auto own = strategy.distribute_datasets_from_function(
      [](const ls::InputContext& context) {  // called by each worker
        return ls::Dataset::range(16)
            .shard(context.num_input_pipelines(), context.input_pipeline_id())
            .batch(context.get_per_replica_batch_size(8));  // 4 rows for each replica
      },
      {.per_replica_buffer_size = 2});
  //! [InputContext, InputOptions]
  CHECK(own.iterator().next()[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 5, 6, 7});
}

TEST_CASE("the examples of readers are right", "[docs]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "lockstep_docs_readers";
  std::filesystem::create_directories(folder);
  const std::filesystem::path prices = folder / "prices.csv", records = folder / "records.bin",
                              bytes = folder / "bytes.bin";
  std::ofstream(prices) << "name,price\nbread,3.5\nmilk,\n";
  std::ofstream(records) << "headabcdefgh";
  std::ofstream(bytes) << "ab";

  //! [readers::CsvOptions, readers::CsvColumn]
  auto rows = ls::Dataset::from_files(
      {prices}, ls::readers::csv(
                    {.columns = {ls::readers::CsvColumn::text(), {ls::DType::f32, 0.0f}}, .header = true}));
  std::vector<std::string> names;
  for (const std::vector<ls::Tensor>& row : rows) names.push_back(ls::readers::text(row[0]));
  //! [readers::CsvOptions, readers::CsvColumn]
  CHECK(names == std::vector<std::string>{"bread", "milk"});

  //! [readers::RecordOptions]
  auto fours =
      ls::Dataset::from_files({records}, ls::readers::records({.record_bytes = 4, .header_bytes = 4}));
  //! [readers::RecordOptions]
  CHECK(ls::readers::text(fours.iterator().next()) == "abcd");

  //! [readers::Elements]
  auto one_by_one = [](const std::filesystem::path& path) {  // a reader of the user's own
    auto file = std::make_shared<std::ifstream>(path);
    return ls::readers::Elements<ls::Tensor>([file]() -> std::optional<ls::Tensor> {
      const int byte = file->get();
      if (byte < 0) return std::nullopt;  // the end of the file
      return ls::Tensor::scalar(static_cast<std::uint8_t>(byte), "CPU:0");
    });
  };
  auto letters = ls::Dataset::from_files({bytes}, one_by_one);
  //! [readers::Elements]
  CHECK(letters.skip(1).iterator().next().item<std::uint8_t>() == 'b');
  std::filesystem::remove_all(folder);
}

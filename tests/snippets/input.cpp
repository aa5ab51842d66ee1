// Examples of the documentation: datasets, alone and over replicas.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/npy_file.hpp"
#include "support/tar_file.hpp"
#include "support/tf_record_file.hpp"

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

  //! [InputStatistics, StageStatistics]
  ls::trace::start();  // a pass that is made now is measured
  auto measured = odd.batch(8).iterator();
  while (std::optional<ls::Tensor> batch = measured.next_optional()) {
  }
  ls::trace::stop();
  const ls::InputStatistics statistics = measured.statistics();
  std::ostringstream table;
  table << statistics;  // a row for each stage, and the slowest
  std::int64_t num_batches = 0;
  for (const ls::StageStatistics& stage : statistics.stages)
    if (stage.stage == "batch(8)") num_batches = stage.num_elements;
  //! [InputStatistics, StageStatistics]
  CHECK(num_batches == 7);

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

TEST_CASE("the examples of readers that do not trust their files are right", "[docs]") {
  const lockstep::test::TemporaryFile text("7\nseven\n8\n");
  const std::filesystem::path& numbers = text.path();
  //! [readers::BadRecord, readers::LineOptions]
  auto read_numbers = [](const std::filesystem::path& path) {  // a reader made of another
    auto lines = ls::readers::lines({.max_line_bytes = 80})(path);
    return [lines]() -> std::optional<ls::Tensor> {
      const std::optional<ls::Tensor> line = lines();
      if (!line) return std::nullopt;
      std::istringstream digits(ls::readers::text(*line));
      if (int number = 0; digits >> number) return ls::Tensor::scalar(number, "CPU:0");
      throw ls::readers::BadRecord("a line is no number");
    };
  };
  auto good = ls::Dataset::from_files({numbers}, read_numbers).ignore_errors();  // reads on behind bad lines
  //! [readers::BadRecord, readers::LineOptions]
  CHECK(good.batch(4).iterator().next().to_vector<int>() == std::vector<int>{7, 8});
}

TEST_CASE("the example of TFRecord files is right", "[docs]") try {
  const lockstep::test::TemporaryFile file(lockstep::test::tf_record_bytes("one"));
  const std::filesystem::path& shard = file.path();
  //! [readers::TfRecordOptions]
  auto records = ls::Dataset::from_files({shard}, ls::readers::tf_record({.max_record_bytes = 1 << 20}));
  //! [readers::TfRecordOptions]
  CHECK(ls::readers::text(records.iterator().next()) == "one");
} catch (const ls::Unsupported&) {
  SKIP("built without ISA-L");
}

TEST_CASE("the example of tar archives is right", "[docs]") try {
  using lockstep::test::tar_member;
  const lockstep::test::TemporaryFile file(tar_member("a.jpg", "pixels") + tar_member("a.cls", "3") +
                                           tar_member("a.json", "{}") + lockstep::test::tar_end());
  const std::filesystem::path& shard = file.path();
  //! [readers::TarOptions]
  auto samples = ls::Dataset::from_files({shard}, ls::readers::tar({.extensions = {"jpg", "cls"}}));
  auto classes = samples.map([](const std::map<std::string, ls::Tensor>& sample) {
    return ls::Tensor::scalar(std::stoi(ls::readers::text(sample.at("cls"))), "CPU:0");
  });
  //! [readers::TarOptions]
  CHECK(classes.iterator().next().item<int>() == 3);
  CHECK_FALSE(samples.iterator().next().contains("json"));
} catch (const ls::Unsupported&) {
  SKIP("built without libarchive");
}

TEST_CASE("the example of Parquet files is right", "[docs]") try {
  const std::filesystem::path table = "prices.parquet";
  //! [readers::ParquetOptions]
  auto batches = ls::Dataset::from_files(
      {table}, ls::readers::parquet({.columns = {"price", "amount"}, .batch_size = 1024}));
  auto costs = batches.map([](const std::map<std::string, ls::Tensor>& batch) {
    return batch.at("price") * batch.at("amount");  // [1024], and fewer at the end of a row group
  });
  //! [readers::ParquetOptions]
  CHECK_THROWS_AS(costs.iterator().next(), ls::NotFound);  // there is no such file
} catch (const ls::Unsupported&) {
  SKIP("built without Arrow");
}

TEST_CASE("the example of images is right", "[docs]") try {
  // A PNG image of two grey pixels, 10 and 20.
  const ls::Tensor bytes = ls::Tensor::from<std::uint8_t>(
      {137, 80, 78, 71, 13, 10, 26,  10,  0,   0,   0, 13, 73, 72, 68, 82, 0,  0,  0,   2,   0,  0,   0,
       1,   8,  0,  0,  0,  0,  209, 73,  32,  86,  0, 0,  0,  11, 73, 68, 65, 84, 120, 218, 99, 224, 18,
       1,   0,  0,  43, 0,  31, 4,   200, 240, 194, 0, 0,  0,  0,  73, 69, 78, 68, 174, 66,  96, 130},
      {68});
  //! [DecodeOptions]
  ls::Tensor pixels = ls::decode_image(bytes, /*channels=*/3, ls::DType::u8, {.max_pixels = 1 << 24});
  //! [DecodeOptions]
  CHECK(pixels.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{10, 10, 10, 20, 20, 20});
} catch (const ls::Unsupported&) {
  SKIP("built without libpng");
}

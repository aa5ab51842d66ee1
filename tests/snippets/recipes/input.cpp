// The recipes of docs/ideas/input_recipes.md.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/tar_file.hpp"
#include "support/temporary_directory.hpp"
#include "support/tf_record_file.hpp"

namespace ls = lockstep;
using lockstep::test::TemporaryDirectory;

namespace {

/// A PNG image of two grey pixels, 10 and 20.
constexpr unsigned char kPixels[] = {
    137, 80, 78, 71, 13, 10, 26,  10,  0,   0,   0, 13, 73, 72, 68, 82, 0,  0,  0,   2,   0,  0,   0,
    1,   8,  0,  0,  0,  0,  209, 73,  32,  86,  0, 0,  0,  11, 73, 68, 65, 84, 120, 218, 99, 224, 18,
    1,   0,  0,  43, 0,  31, 4,   200, 240, 194, 0, 0,  0,  0,  73, 69, 78, 68, 174, 66,  96, 130};

std::string pixels() { return {reinterpret_cast<const char*>(kPixels), sizeof kPixels}; }

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class Dataset>
std::int64_t num_elements(const Dataset& dataset) {
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& element : dataset) ++count;
  return count;
}

/// The text of a number as a scalar.
ls::Tensor parse_number(const ls::Tensor& line) {
  return ls::Tensor::scalar(std::int64_t{std::stoll(ls::readers::text(line))}, "CPU:0");
}

}  // namespace

TEST_CASE("the recipe of shuffled files is right", "[docs]") {
  const TemporaryDirectory directory;
  const std::string folder = directory.path().string();
  for (const char* const name : {"/a.txt", "/b.txt", "/c.txt"}) write(folder + name, "1\n2\n3\n4\n");
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  //! [shuffled_files]
  auto lines = ls::list_files(folder + "/*.txt", /*shuffle=*/true, /*seed=*/1)
                   .interleave(
                       [](const ls::Tensor& path) {
                         return ls::Dataset::from_files({ls::readers::text(path)}, ls::readers::lines());
                       },
                       /*cycle_length=*/2, /*block_length=*/1, {.num_parallel_calls = 2})
                   .shuffle(/*buffer_size=*/1000, /*seed=*/2);
  auto numbers = lines.map(parse_number, {.num_parallel_calls = 2}).batch(4);
  // Each worker reads files of its own, and makes steps with the others.
  auto steps = strategy.distribute_dataset(numbers, {.auto_shard_policy = ls::AutoShardPolicy::file});
  //! [shuffled_files]
  std::int64_t num_rows = 0;
  for (const auto& step : steps) num_rows += strategy.num_rows(step);
  CHECK(num_rows == 12);
}

TEST_CASE("the recipe of CSV is right", "[docs]") {
  const TemporaryDirectory directory;
  const std::filesystem::path table = directory / "table.csv";
  write(table, "age,weight,kind\n1,2.5,0\n2,3.5,1\n3,,1\n");
  //! [csv]
  auto columns = ls::Dataset::from_files(
      {table}, ls::readers::csv({.columns = {ls::DType::f32, {ls::DType::f32, 0.0f}, ls::DType::i64},
                                 .header = true,
                                 .batch_size = 2}));  // parses many records at once
  auto batches = columns.map([](const std::vector<ls::Tensor>& batch) {
    return std::tuple{batch[0] + batch[1], batch[2]};  // [2] each, and [1] at the end
  });
  //! [csv]
  const auto [sums, kinds] = batches.iterator().next();
  CHECK(sums.to_vector<float>() == std::vector<float>{3.5f, 5.5f});
  CHECK(kinds.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("the recipe of images is right", "[docs]") try {
  const TemporaryDirectory directory;
  const std::string folder = directory.path().string();
  write(folder + "/a.png", pixels());
  write(folder + "/b.png", pixels());
  //! [images]
  auto images =
      ls::list_files(folder + "/*.png", /*shuffle=*/true, /*seed=*/1)  // names are shuffled, not images
          .map(
              [](const ls::Tensor& path) {
                return ls::decode_image(ls::read_file(ls::readers::text(path)), /*channels=*/3)
                    .cast(ls::DType::f32);
              },
              {.num_parallel_calls = 4})
          .batch(32)
          .prefetch(2);
  //! [images]
  CHECK(images.iterator().next().shape() == ls::Shape{2, 1, 2, 3});
} catch (const ls::Unsupported&) {
  SKIP("built without libpng");
}

TEST_CASE("the recipe of TFRecord is right", "[docs]") try {
  const TemporaryDirectory directory;
  const std::string folder = directory.path().string();
  write(folder + "/a.tfrecord", lockstep::test::tf_record_bytes("1") + lockstep::test::tf_record_bytes("2"));
  //! [tf_record]
  auto records =
      ls::list_files(folder + "/*.tfrecord", /*shuffle=*/true, /*seed=*/1)
          .interleave(
              [](const ls::Tensor& path) {
                return ls::Dataset::from_files({ls::readers::text(path)}, ls::readers::tf_record());
              },
              /*cycle_length=*/4)
          .ignore_errors()  // leaves out records whose checksum is wrong, and logs the first
          .map(parse_number);
  //! [tf_record]
  CHECK(num_elements(records) == 2);
} catch (const ls::Unsupported&) {
  SKIP("built without ISA-L");
}

TEST_CASE("the recipe of WebDataset is right", "[docs]") try {
  using lockstep::test::tar_member;
  const TemporaryDirectory directory;
  const std::filesystem::path shard = directory / "train-0000.tar";
  write(shard, tar_member("a.png", pixels()) + tar_member("a.cls", "3") + lockstep::test::tar_end());
  //! [webdataset]
  auto samples = ls::Dataset::from_files({shard}, ls::readers::tar({.extensions = {"png", "cls"}}));
  auto labelled = samples.map(
      [](const std::map<std::string, ls::Tensor>& sample) {
        return std::tuple{ls::decode_image(sample.at("png"), /*channels=*/1), parse_number(sample.at("cls"))};
      },
      {.num_parallel_calls = 4});
  //! [webdataset]
  CHECK(std::get<1>(labelled.iterator().next()).item<std::int64_t>() == 3);
} catch (const ls::Unsupported&) {
  SKIP("built without libarchive or libpng");
}

TEST_CASE("the recipe of ragged text is right", "[docs]") {
  const TemporaryDirectory directory;
  const std::filesystem::path text = directory / "text";
  write(text, "a\nlonger\nbc\nlongest\n");
  //! [ragged]
  auto sentences = ls::Dataset::from_files({text}, ls::readers::lines());  // u8 [length]
  auto batches = sentences.bucket_by_sequence_length(
      [](const ls::Tensor& sentence) { return sentence.size(); },
      {.boundaries = {4, 16}, .batch_sizes = {64, 32, 8}, .padded_batch = {.padding_values = {0}}});
  //! [ragged]
  CHECK(num_elements(batches) == 2);
}

TEST_CASE("the recipe of going on is right", "[docs]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "step.safetensors";
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto dataset = strategy.distribute_dataset(ls::Dataset::range(20).shuffle(20).batch(4));
  //! [resume]
  ls::Variable w = strategy.make_variable(ls::Tensor::scalar(0.0f), {.name = "w"});
  auto iterator = dataset.iterator();
  ls::Checkpoint checkpoint({{"w", w}});
  checkpoint.add("input", iterator);
  if (std::filesystem::exists(path)) checkpoint.restore(path);  // or everything stays as it is
  while (auto step = iterator.next_optional()) {
    w.assign(w.value() + ls::Tensor::scalar(1.0f));  // the training
    checkpoint.save(path);
  }
  //! [resume]
  CHECK(w.value().item<float>() == 5);
  checkpoint.restore(path);
  CHECK_FALSE(iterator.next_optional());
}

TEST_CASE("the recipe of a slow stage is right", "[docs]") {
  const auto dataset = ls::Dataset::range(100).map([](const ls::Tensor& x) { return x; }).batch(10);
  std::ostringstream out;
  //! [slow_stage]
  ls::trace::start();  // before the iterator is made; or LOCKSTEP_TRACE=FILE in the environment
  auto iterator = dataset.iterator();
  while (auto batch = iterator.next_optional()) {
  }
  ls::trace::stop();
  const ls::InputStatistics statistics = iterator.statistics();
  out << statistics;                        // a table of the stages
  std::cerr << statistics.slowest << '\n';  // "The slowest stage is map(one call): ..."
  //! [slow_stage]
  CHECK(out.str().find("map(one call)") != std::string::npos);
}

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/parquet.hpp>

#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::says;

#ifdef LOCKSTEP_HAS_PARQUET

#include <arrow/io/file.h>
#include <parquet/api/schema.h>
#include <parquet/api/writer.h>

namespace {

namespace pq = ::parquet;
using Row = std::map<std::string, Tensor>;

pq::schema::NodePtr node(const std::string& name, pq::Type::type type,
                         pq::Repetition::type repetition = pq::Repetition::REQUIRED,
                         std::shared_ptr<const pq::LogicalType> logical = pq::LogicalType::None()) {
  return pq::schema::PrimitiveNode::Make(name, repetition, std::move(logical), type);
}

template <class Writer, class Value>
void write_column(pq::RowGroupWriter& group, const std::vector<Value>& values,
                  const std::vector<std::int16_t>& levels = {}) {
  auto& writer = static_cast<Writer&>(*group.NextColumn());
  const std::size_t size = levels.empty() ? values.size() : levels.size();
  writer.WriteBatch(static_cast<std::int64_t>(size), levels.empty() ? nullptr : levels.data(), nullptr,
                    values.data());
}

/// Row i of 10, in groups of 4: i as int64, i - 5 as int8, i / 2 as double, i is odd, and i times 'x'.
void write_rows(const std::filesystem::path& path) {
  using pq::LogicalType;
  const auto schema = std::static_pointer_cast<pq::schema::GroupNode>(pq::schema::GroupNode::Make(
      "schema", pq::Repetition::REQUIRED,
      {node("id", pq::Type::INT64),
       node("small", pq::Type::INT32, pq::Repetition::REQUIRED, LogicalType::Int(8, true)),
       node("half", pq::Type::DOUBLE, pq::Repetition::OPTIONAL), node("odd", pq::Type::BOOLEAN),
       node("text", pq::Type::BYTE_ARRAY, pq::Repetition::REQUIRED, LogicalType::String()),
       node("maybe", pq::Type::INT32, pq::Repetition::OPTIONAL)}));
  const auto out = ::arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  const auto file = pq::ParquetFileWriter::Open(out, schema);
  for (std::int64_t begin = 0; begin < 10; begin += 4) {
    pq::RowGroupWriter& group = *file->AppendRowGroup();
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> small, maybe;
    std::vector<double> halves;
    std::vector<std::string> texts;
    std::vector<pq::ByteArray> text_refs;
    bool odd[4] = {};
    std::vector<std::int16_t> all_there, some_there;
    for (std::int64_t i = begin; i < std::min<std::int64_t>(begin + 4, 10); ++i) {
      odd[i - begin] = i % 2 == 1;
      ids.push_back(i);
      small.push_back(static_cast<std::int32_t>(i - 5));
      halves.push_back(static_cast<double>(i) / 2);
      texts.emplace_back(static_cast<std::size_t>(i), 'x');
      all_there.push_back(1);
      some_there.push_back(i == 5 ? 0 : 1);
      if (i != 5) maybe.push_back(static_cast<std::int32_t>(i));
    }
    for (const std::string& text : texts)
      text_refs.emplace_back(static_cast<std::uint32_t>(text.size()),
                             reinterpret_cast<const std::uint8_t*>(text.data()));
    write_column<pq::Int64Writer>(group, ids);
    write_column<pq::Int32Writer>(group, small);
    write_column<pq::DoubleWriter>(group, halves, all_there);
    static_cast<pq::BoolWriter&>(*group.NextColumn())
        .WriteBatch(static_cast<std::int64_t>(ids.size()), nullptr, nullptr, odd);
    write_column<pq::ByteArrayWriter>(group, text_refs);
    write_column<pq::Int32Writer>(group, maybe, some_there);
  }
  file->Close();
  static_cast<void>(out->Close());
}

struct File {
  test::TemporaryDirectory directory;
  std::filesystem::path path = directory / "rows.parquet";
  File() { write_rows(path); }
};

}  // namespace

TEST_CASE("the rows of a Parquet file have their columns by name", "[input][host]") {
  const File file;
  const auto rows = readers::parquet({.columns = {"id", "small", "half", "odd", "text"}})(file.path);
  for (std::int64_t i = 0; i < 10; ++i) {
    const std::optional<Row> row = rows();
    REQUIRE(row);
    CHECK(row->size() == 5);
    CHECK(row->at("id").item<std::int64_t>() == i);
    CHECK(row->at("small").dtype() == DType::i8);
    CHECK(row->at("small").item<std::int8_t>() == i - 5);
    CHECK(row->at("half").item<double>() == static_cast<double>(i) / 2);
    CHECK(row->at("odd").item<bool>() == (i % 2 == 1));
    CHECK(readers::text(row->at("text")) == std::string(static_cast<std::size_t>(i), 'x'));
  }
  CHECK_FALSE(rows());
  CHECK_FALSE(rows());
}

TEST_CASE("batches of a Parquet file end with its row groups", "[input][host]") {
  const File file;
  const auto batches = readers::parquet({.columns = {"half", "id"}, .batch_size = 3})(file.path);
  std::vector<std::vector<std::int64_t>> ids;
  while (const auto batch = batches()) {
    ids.push_back(batch->at("id").to_vector<std::int64_t>());
    CHECK(batch->at("half").shape() == batch->at("id").shape());
  }
  CHECK(ids == std::vector<std::vector<std::int64_t>>{{0, 1, 2}, {3}, {4, 5, 6}, {7}, {8, 9}});
}

TEST_CASE("a Parquet file is gone on with at any row", "[input][host]") {
  const File file;
  for (const std::int64_t batch_size : {0, 3}) {
    const readers::ParquetOptions options{.columns = {"id"}, .batch_size = batch_size};
    const auto next = [](const readers::Elements<Row>& elements) {
      const auto element = elements();
      return element ? element->at("id").to_vector<std::int64_t>() : std::vector<std::int64_t>();
    };
    const auto whole = readers::parquet(options)(file.path);
    std::vector<readers::Position> positions;
    std::vector<std::vector<std::int64_t>> all;
    do {
      positions.push_back(whole.position());
      all.push_back(next(whole));
    } while (!all.back().empty());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto later = readers::parquet(options)(file.path);
      later.seek(positions[i]);
      CHECK(later.position() == positions[i]);
      for (std::size_t k = i; k < all.size(); ++k) CHECK(next(later) == all[k]);
    }
  }
  const auto rows = readers::parquet({.columns = {"text"}})(file.path);
  rows.seek({1, 2});
  CHECK(readers::text(rows().value().at("text")) == "xxxxxx");
  for (const readers::Position& wrong : {readers::Position{1}, {4, 0}, {3, 1}, {0, 5}})
    CHECK_THROWS_MATCHES(readers::parquet({.columns = {"id"}})(file.path).seek(wrong), InvalidArgument,
                         says("is not one where an element begins"));
}

TEST_CASE("what a Parquet file has not, or tensors cannot have, is an error", "[input][host]") {
  const File file;
  CHECK_THROWS_MATCHES(readers::parquet({.columns = {"no"}})(file.path), InvalidArgument,
                       says("readers::parquet: ", file.path.string(), "there is no column 'no'"));
  CHECK_THROWS_MATCHES(readers::parquet({.columns = {"a", "a"}}), InvalidArgument, says("asked for twice"));
  CHECK_THROWS_MATCHES(readers::parquet({.batch_size = -1}), InvalidArgument, says("batch_size is -1"));
  CHECK_THROWS_MATCHES(readers::parquet({.batch_size = 2})(file.path), InvalidArgument,
                       says("column 'text' is text", "batch_size = 0"));
  const auto rows = readers::parquet()(file.path);
  for (int i = 0; i < 4; ++i) CHECK(rows()->size() == 6);
  CHECK_THROWS_MATCHES(
      rows(), InvalidArgument,
      says("row group 1, row 1: column 'maybe' is null", "fill nulls where the file is written"));
  const auto texts = readers::parquet({.columns = {"text"}, .max_record_bytes = 2})(file.path);
  CHECK_THROWS_MATCHES(texts(), InvalidArgument, says("has 3 bytes, more than max_record_bytes, 2"));
  CHECK_THROWS_AS(readers::parquet()(file.directory / "none"), NotFound);
  const test::TemporaryFile other("PAR1 is not all that such a file has");
  CHECK_THROWS_MATCHES(readers::parquet()(other.path()), InvalidArgument, says("Pass a Parquet file"));

  const auto refused = [&](const pq::schema::NodePtr& column, const std::string& type) {
    const std::filesystem::path path = file.directory / "refused";
    const auto schema = std::static_pointer_cast<pq::schema::GroupNode>(
        pq::schema::GroupNode::Make("schema", pq::Repetition::REQUIRED, {column}));
    const auto out = ::arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
    pq::ParquetFileWriter::Open(out, schema)->Close();
    static_cast<void>(out->Close());
    CHECK_THROWS_MATCHES(readers::parquet()(path), InvalidArgument,
                         says("column 'c' is of the type ", type, "which is not read"));
  };
  refused(node("c", pq::Type::INT32, pq::Repetition::REPEATED), "List");
  refused(node("c", pq::Type::INT96), "INT96");
  refused(node("c", pq::Type::INT64, pq::Repetition::REQUIRED, pq::LogicalType::Decimal(9, 2)), "Decimal");
}

TEST_CASE("a dataset of Parquet files has all their rows", "[input][host]") {
  const File file;
  std::int64_t sum = 0;
  for (const Row& row : Dataset::from_files({file.path, file.path}, readers::parquet({.columns = {"id"}})))
    sum += row.at("id").item<std::int64_t>();
  CHECK(sum == 90);
}

#else

TEST_CASE("without Arrow its absence is an error that names the package", "[input][host]") {
  CHECK_THROWS_MATCHES(readers::parquet(), Unsupported,
                       says("readers::parquet: lockstep was built without Arrow", "libparquet-dev"));
}

TEST_CASE("Parquet files are read", "[input][host]") { SKIP("built without Arrow"); }

#endif

#include <cmath>
#include <limits>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/concat.hpp"
#include "input/pipeline/pipeline.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using readers::CsvColumn;
using readers::CsvOptions;
using test::says;
using test::TemporaryFile;

namespace csv_test {
/// The one field of a file as a number.
template <class T>
T number(const std::string& text) {
  const TemporaryFile file(text);
  return readers::csv({.columns = {dtype_of<T>}})(file.path())()->at(0).template item<T>();
}

template <class T>
void check_no_number(const std::string& text, const std::string& reason) {
  CHECK_THROWS_MATCHES(number<T>(text), InvalidArgument,
                       says("byte 0: line 1, field 1: '" + text + "' " + reason));
}
}  // namespace csv_test

using csv_test::check_no_number;
using csv_test::number;

TEST_CASE("a CSV file's records are lists of scalars, as the columns say", "[input][csv][host]") {
  const TemporaryFile file("name,weight,count\r\nAda,1.5,3\r\n\"Bob, jr.\",-2,\r\n");
  const auto dataset = Dataset::from_files(
      {file.path()},
      readers::csv({.columns = {CsvColumn::text(), DType::f32, {DType::i64, -1}}, .header = true}));
  static_assert(std::is_same_v<decltype(dataset), const TypedDataset<std::vector<Tensor>>>);
  auto pass = dataset.pipeline()->open();
  const auto first = pass->next(), second = pass->next();
  CHECK_FALSE(pass->next());
  CHECK(readers::text(first->at(0)) == "Ada");
  CHECK(first->at(1).shape() == Shape());
  CHECK(first->at(1).item<float>() == 1.5f);
  CHECK(first->at(2).item<std::int64_t>() == 3);
  CHECK(readers::text(second->at(0)) == "Bob, jr.");
  CHECK(second->at(1).item<float>() == -2);
  CHECK(second->at(2).item<std::int64_t>() == -1);
  const auto sums =
      dataset.map([](const std::vector<Tensor>& row) { return row[1] + row[2].cast(DType::f32); }).batch(2);
  CHECK(sums.pipeline()->open()->next()->at(0).to_vector<float>() == std::vector<float>{4.5f, -3});
}

TEST_CASE("selected columns, another delimiter, and what stands for a missing number", "[input][csv][host]") {
  const TemporaryFile file("x\t1\tNA\n\"y\t2\t 3 \n");
  auto records = readers::csv({.columns = {DType::i32, {DType::f64, 0.5}},
                               .delimiter = '\t',
                               .quotes = false,
                               .missing = "NA",
                               .select_columns = {1, 2}})(file.path());
  const auto first = records(), second = records();
  CHECK(first->at(0).item<std::int32_t>() == 1);
  CHECK(first->at(1).item<double>() == 0.5);
  CHECK(second->at(0).item<std::int32_t>() == 2);
  CHECK(second->at(1).item<double>() == 3);
  CHECK_FALSE(records());
}

TEST_CASE("an empty text is a text; one before or after which there are blanks keeps them",
          "[input][csv][host]") {
  const TemporaryFile file(", a \n");
  const auto record =
      readers::csv({.columns = {CsvColumn::text(), CsvColumn::text()}, .missing = " a "})(file.path())();
  CHECK(record->at(0).shape() == Shape(0));
  CHECK(readers::text(record->at(1)) == " a ");
}

TEMPLATE_TEST_CASE("integers are read to their ends and not beyond", "[input][csv][host]", std::int8_t,
                   std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                   std::uint64_t) {
  const auto most = std::numeric_limits<TestType>::max();
  CHECK(number<TestType>(std::to_string(most)) == most);
  CHECK(number<TestType>(std::to_string(std::numeric_limits<TestType>::min())) ==
        std::numeric_limits<TestType>::min());
  CHECK(number<TestType>(" +7\t") == 7);
  const std::string type(name(dtype_of<TestType>));
  check_no_number<TestType>(std::to_string(most) + "0", "does not fit " + type);
  check_no_number<TestType>("7.5", "is not a valid " + type);
  check_no_number<TestType>("+-7", "is not a valid " + type);
  check_no_number<TestType>("seven", "is not a valid " + type);
}

TEST_CASE("floating-point numbers are rounded once; too small is 0, too large an error",
          "[input][csv][host]") {
  CHECK(number<float>("0.1") == 0.1f);
  CHECK(number<double>("-1e-3") == -1e-3);
  for (const char* tiny : {"1e-400", "-1e-400", "+1e-60000000000000000000", "123.4e-5000", "0.0001e-4999"}) {
    CHECK(number<double>(tiny) == 0);
    CHECK(number<float>(tiny) == 0);
    CHECK(float(number<f16>(tiny)) == 0);
    CHECK(float(number<bf16>(tiny)) == 0);
  }
  CHECK(std::signbit(number<double>("-1e-400")));
  CHECK(number<float>("1e-60") == 0);
  CHECK(number<float>("0." + std::string(60, '0') + "1") == 0);
  CHECK(number<float>("1" + std::string(30, '0') + "e-90") == 0);
  CHECK(number<double>("4e-320") == 4e-320);
  CHECK(number<float>("3.4e38") == 3.4e38f);
  CHECK(float(number<f16>("0.5")) == 0.5f);
  CHECK(float(number<bf16>("-3")) == -3);
  CHECK(number<double>("inf") == std::numeric_limits<double>::infinity());
  CHECK(number<float>("nan") != number<float>("nan"));
  check_no_number<float>("1e60", "does not fit float32");
  check_no_number<double>("1e999", "does not fit float64");
  check_no_number<double>("0.0000000000001e999", "does not fit float64");
  check_no_number<double>("1e60000000000000000000", "does not fit float64");
  check_no_number<float>("100000000000000000000e25", "does not fit float32");
  check_no_number<f16>("70000", "does not fit float16");
  check_no_number<float>("1.5x", "is not a valid float32");
  check_no_number<double>("1e-400x", "is not a valid float64");
  check_no_number<double>("1e999x", "is not a valid float64");
  check_no_number<f16>("x", "is not a valid float16");
}

TEST_CASE("booleans are 0, 1, true, false", "[input][csv][host]") {
  CHECK(number<bool>("1"));
  CHECK(number<bool>("true"));
  CHECK_FALSE(number<bool>("0"));
  CHECK_FALSE(number<bool>("false"));
  check_no_number<bool>("yes", "is not a valid bool");
}

TEST_CASE("a record that is not as the options say is refused, and the next one read", "[input][csv][host]") {
  const TemporaryFile bad("1,2\n3\n7,8\n"), good("4,5\n"), empty("6,\n");
  const auto dataset = Dataset::from_files({bad.path(), good.path(), empty.path()},
                                           readers::csv({.columns = {DType::i64, DType::i64}}));
  auto pass = dataset.pipeline()->open();
  CHECK(pass->next()->at(1).item<std::int64_t>() == 2);
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,  // the path once
                       says("Dataset::from_files: element 1: readers::csv: \"" + bad.path().string() +
                                "\", byte 4: line 2, field 1: the record ends, but it should have 2 fields",
                            "Pass a file whose records are as the options say"));
  CHECK(pass->next()->at(1).item<std::int64_t>() == 8);
  CHECK(pass->next()->at(1).item<std::int64_t>() == 5);
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("byte 2: line 1, field 2: it is empty, and the column has no default value"));
  CHECK_FALSE(pass->next());
  CHECK_THROWS_MATCHES(readers::csv({.columns = {DType::i64}})("/no/such"), NotFound,
                       says("readers::csv: \"/no/such\" cannot be opened"));
}

TEST_CASE("CSV options that contradict each other are refused at once", "[input][csv][host]") {
  CHECK_THROWS_MATCHES(readers::csv({}), InvalidArgument, says("readers::csv: there are no columns"));
  for (const char delimiter : {'"', '\n', '\r'})
    CHECK_THROWS_MATCHES(readers::csv({.columns = {DType::f32}, .delimiter = delimiter}), InvalidArgument,
                         says("the delimiter is a quote or an end of a line"));
  CHECK_THROWS_MATCHES(readers::csv({.columns = {DType::f32}, .select_columns = {0, 1}}), InvalidArgument,
                       says("1 columns, but 2 are selected"));
  for (const auto& selected : {std::vector<std::int64_t>{-1, 2}, {1, 1}, {2, 0}})
    CHECK_THROWS_MATCHES(readers::csv({.columns = {DType::f32, DType::f32}, .select_columns = selected}),
                         InvalidArgument, says("selected columns are not ascending from 0 on"));
}

TEST_CASE("a CSV default that its column cannot hold is refused at once", "[input][csv][host]") {
  const auto make = [](DType dtype, const Scalar& value) {
    return readers::csv({.columns = {DType::f32, {dtype, value}}});
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kEnd = 9223372036854775808.0;
  const std::pair<DType, Scalar> bad[] = {{DType::i8, 128},
                                          {DType::i8, -129},
                                          {DType::u8, -1},
                                          {DType::i32, 1.5},
                                          {DType::i32, kNan},
                                          {DType::i64, kEnd},
                                          {DType::i64, std::numeric_limits<std::uint64_t>::max()},
                                          {DType::u64, 2 * kEnd},
                                          {DType::u64, -1.0},
                                          {DType::boolean, 2},
                                          {DType::boolean, kNan},
                                          {DType::f16, 1e9},
                                          {DType::f32, 1e300}};
  for (const auto& [dtype, value] : bad) {
    INFO(dtype << " " << value.as<double>());
    CHECK_THROWS_MATCHES(make(dtype, value), InvalidArgument,
                         says("readers::csv: the default value ",
                              detail::concat(" of column 1 is not a valid ", dtype), "Give one"));
  }
  const std::pair<DType, Scalar> good[] = {{DType::i8, -128},
                                           {DType::u8, 255.0},
                                           {DType::i64, std::numeric_limits<std::int64_t>::max()},
                                           {DType::i64, -kEnd},
                                           {DType::u64, std::numeric_limits<std::uint64_t>::max()},
                                           {DType::boolean, true},
                                           {DType::bf16, 0.1},
                                           {DType::f16, std::numeric_limits<double>::infinity()},
                                           {DType::f32, kNan}};
  for (const auto& [dtype, value] : good) {
    INFO(dtype << " " << value.as<double>());
    CHECK_NOTHROW(make(dtype, value));
  }
}

TEST_CASE("a long field is read whole", "[input][csv][host]") {
  const std::string field(1'000'000, 'x');
  const TemporaryFile file("1," + field + "\n2,\"" + field + "\"\n");
  auto records = readers::csv({.columns = {DType::i64, CsvColumn::text()}})(file.path());
  for (int i = 0; i < 2; ++i) CHECK(readers::text(records()->at(1)) == field);
  CHECK_FALSE(records());
}

TEST_CASE("records are read in batches, without those that are wrong", "[input][csv][host]") {
  const TemporaryFile file("1,1.5\n2,2.5\nx,0\n3,y\n4,4.5\n5,5.5\n6,6.5\n");
  const auto batches = Dataset::from_files(
      {file.path(), file.path()}, readers::csv({.columns = {DType::i32, DType::f64}, .batch_size = 3}));
  std::vector<std::vector<std::int32_t>> numbers;
  std::vector<std::vector<double>> weights;
  int num_errors = 0;
  for (const auto& batch : batches.ignore_errors(4, [&](auto&&...) { ++num_errors; })) {
    numbers.push_back(batch[0].to_vector<std::int32_t>());
    weights.push_back(batch[1].to_vector<double>());
  }
  CHECK(numbers == std::vector<std::vector<std::int32_t>>{{1, 2, 4}, {5, 6}, {1, 2, 4}, {5, 6}});
  CHECK(weights ==
        std::vector<std::vector<double>>{{1.5, 2.5, 4.5}, {5.5, 6.5}, {1.5, 2.5, 4.5}, {5.5, 6.5}});
  CHECK(num_errors == 4);
  CHECK_THROWS_MATCHES(readers::csv({.columns = {CsvColumn::text()}, .batch_size = 1}), InvalidArgument,
                       says("readers::csv: column 0 is text", "padded_batch"));
  CHECK_THROWS_MATCHES(readers::csv({.columns = {DType::f32}, .batch_size = -1}), InvalidArgument,
                       says("readers::csv: batch_size -1, max_record_bytes"));
  CHECK_THROWS_AS(readers::csv({.columns = {DType::f32}, .max_record_bytes = -1}), InvalidArgument);
}

TEST_CASE("a position amid a batch goes on behind the records that were wrong before", "[input][csv][host]") {
  const TemporaryFile file("1\n2\n3\nx\n4\n5\ny\n6\n");
  const auto reader = readers::csv({.columns = {DType::i64}, .batch_size = 2});
  const auto take = [](const readers::Elements<std::vector<Tensor>>& elements) {
    return elements()->at(0).to_vector<std::int64_t>();
  };
  const auto first = reader(file.path());
  CHECK(take(first) == std::vector<std::int64_t>{1, 2});
  CHECK_THROWS_AS(first(), readers::BadRecord);  // x; the batch has 3
  const auto second = reader(file.path());
  second.seek(first.position());
  CHECK(take(second) == std::vector<std::int64_t>{3, 4});
  CHECK_THROWS_AS(second(), readers::BadRecord);  // y
  const auto third = reader(file.path());
  third.seek(second.position());
  CHECK(take(third) == std::vector<std::int64_t>{5, 6});
  CHECK_FALSE(third());
}

TEST_CASE("a header of another length is an error of the file, and the next file is read",
          "[input][csv][host]") {
  const TemporaryFile bad("a,b,c\n1,2\n"), good("a,b\n3,4\n");
  auto pass = Dataset::from_files({bad.path(), good.path()},
                                  readers::csv({.columns = {DType::i64, DType::i64}, .header = true}))
                  .pipeline()
                  ->open();
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("line 1, field 3: a record of more than 2 fields"));
  CHECK(pass->next()->at(1).item<std::int64_t>() == 4);
  CHECK_FALSE(pass->next());
}

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/input/numpy.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/zip_file.hpp"

using namespace lockstep;
using test::bytes_of;
using test::npy_header;
using test::says;
using test::TemporaryFile;
using test::Values;
using test::zip_archive;

namespace npz_test {
using Arrays = std::map<std::string, Tensor>;

std::string npy(const Values& values) {
  std::string bytes = npy_header("<i8", "(" + std::to_string(values.size()) + ",)");
  for (const std::int64_t value : values) bytes += bytes_of(value);
  return bytes;
}

/// The array 'x' of an archive is refused, for this reason, with nothing left allocated.
void check_refused(const std::string& archive, const std::string& reason) {
  const TemporaryFile file(archive);
  const std::int64_t in_use = memory_stats("CPU:0").in_use_bytes;
  CHECK_THROWS_MATCHES(load_npz(file.path()), InvalidArgument,
                       says("load_npz: ", file.path().string(), ", byte ", reason, "numpy.savez"));
  CHECK(memory_stats("CPU:0").in_use_bytes == in_use);
}
}  // namespace npz_test

using npz_test::Arrays;
using npz_test::check_refused;
using npz_test::npy;

TEST_CASE("a .npz file's arrays have their names, stored or deflated, zip64 or not", "[input][npz][host]") {
  const bool deflated = GENERATE(false, true), zip64 = GENERATE(false, true);
  const TemporaryFile file(zip_archive({{"x.npy", npy({1, 2, 3}), deflated, zip64},
                                        {"arr_0.npy", npy({4}), !deflated, zip64},
                                        {"plain", npy({}), deflated}},
                                       zip64));
  const Arrays arrays = load_npz(file.path());
  REQUIRE(arrays.size() == 3);
  CHECK(arrays.at("x").to_vector<std::int64_t>() == Values{1, 2, 3});
  CHECK(arrays.at("arr_0").to_vector<std::int64_t>() == Values{4});
  CHECK(arrays.at("plain").shape() == Shape(0));
  CHECK(arrays.at("x").device() == Device("CPU:0"));
  const Arrays some = load_npz(file.path(), {"x"});
  CHECK(some.size() == 1);
}

TEST_CASE("an archive may be followed by zeros and ends of lines", "[input][npz][host]") {
  const std::string archive =
      zip_archive({{"x.npy", npy({1, 2})}, {"y.npy", npy({3})}}, GENERATE(false, true));
  for (const std::string& padding :
       {std::string("\n"), std::string("\r\n"), std::string(1, '\0'), std::string(4096, '\0') + "\n"}) {
    const TemporaryFile file(archive + padding);
    CHECK(load_npz(file.path()).size() == 2);
  }
}

TEST_CASE("large arrays go through every buffer", "[input][npz][host]") {
  Values values;
  for (std::int64_t i = 0; i < 200'000; ++i) values.push_back(i * i % 1009);
  const TemporaryFile file(zip_archive({{"x.npy", npy(values), true}, {"y.npy", npy(values)}}));
  const Arrays arrays = load_npz(file.path());
  CHECK(arrays.at("x").to_vector<std::int64_t>() == values);
  CHECK(arrays.at("y").to_vector<std::int64_t>() == values);
}

TEST_CASE("a comment at the end of an archive is passed over", "[input][npz][host]") {
  std::string archive = zip_archive({{"x.npy", npy({1})}});
  test::put(archive, archive.size() - 2, std::uint16_t{7});
  const TemporaryFile file(archive + "comment");
  CHECK(load_npz(file.path()).at("x").to_vector<std::int64_t>() == Values{1});
}

TEST_CASE("an array in an archive that is damaged is named", "[input][npz][host]") {
  check_refused(zip_archive({{"x.npy", "no array"}}), "0 of the member: array 'x': it does not begin with");
  check_refused(zip_archive({{"x.npy", "no array", true}}), "0 of the member: array 'x': it does not begin");
  check_refused(zip_archive({{"x.npy", npy_header("<i8", "(1000000000000,)") + "12345678"}}),
                "array 'x': the array has more elements than the 1 that the file has bytes for");
  check_refused(zip_archive({{"x.npy", npy_header("<i8", "(1000000000000,)") + "12345678", true}}),
                "array 'x': the array has more elements than the 1 that the file has bytes for");
  check_refused(zip_archive({{"x.npy", npy({1})}, {"x", npy({1})}}), "a member has the name of another one");
}

TEST_CASE("an array whose bytes are not those that were written is refused", "[input][npz][host]") {
  std::string stored = zip_archive({{"x.npy", npy({1, 2})}});
  stored[stored.find("PK\1\2") - 1] ^= 1;
  check_refused(stored, "array 'x': its checksum is not the one that the directory says");
  std::string deflated = zip_archive({{"x.npy", npy({1, 2}), true}});
  test::put(deflated, deflated.find("PK\1\2") + 16, std::uint32_t{12345});
  check_refused(deflated, "array 'x': its checksum");
  std::string damaged = zip_archive({{"x.npy", npy({1, 2}), true}});
  damaged.replace(35, 8, 8, '\xff');
  check_refused(damaged, "array 'x': the compressed data is damaged: ");
}

TEST_CASE("a directory that lies about an array's size is found out", "[input][npz][host]") {
  const std::string content = npy({1, 2, 3});
  const auto with_size = [&](std::size_t size) {
    std::string archive = zip_archive({{"x.npy", content, true}});
    test::put(archive, archive.find("PK\1\2") + 24, static_cast<std::uint32_t>(size));
    return archive;
  };
  check_refused(with_size(content.size() + 5), "array 'x': it ends 5 bytes before the directory says");
  check_refused(with_size(content.size() - 8), "array 'x': the array has more elements than the 2");
  check_refused(with_size(2'000'000'000), "cannot be the 2000000000 that the directory says");
}

TEST_CASE("what inflates to more than the directory says is not inflated", "[input][npz][host]") {
  std::string archive = zip_archive({{"x.npy", npy({1}) + std::string(10'000'000, '\0'), true}});
  test::put(archive, archive.find("PK\1\2") + 24, static_cast<std::uint32_t>(npy({1}).size() + 10));
  check_refused(archive, "array 'x': there is more after the bytes that the directory counts");
}

TEST_CASE("a .npz file is a dataset of its arrays' rows", "[input][npz][host]") {
  MirroredStrategy strategy(test::host_devices(2));
  const TemporaryFile file(zip_archive({{"y.npy", npy({4, 5, 6}), true}, {"x.npy", npy({1, 2, 3})}}));
  const Dataset dataset = strategy.make_numpy_dataset(file.path());
  CHECK(test::flat_elements(dataset, 0) == Values{1, 2, 3});
  CHECK(test::flat_elements(dataset, 1) == Values{4, 5, 6});
  std::vector<Values> ys;
  for (const auto& step : strategy.distribute_dataset(dataset.as<Arrays>().batch(3)))
    ys = test::components(step.at("y"));
  CHECK(ys == std::vector<Values>{{4, 5}, {6}});
  const TemporaryFile uneven(zip_archive({{"x.npy", npy({1})}, {"y.npy", npy({1, 2})}}));
  CHECK_THROWS_MATCHES(strategy.make_numpy_dataset(uneven.path()), InvalidArgument,
                       says("make_numpy_dataset of ", uneven.path().string(), "2 rows"));
  const TemporaryFile none(zip_archive({}));
  CHECK_THROWS_AS(strategy.make_numpy_dataset(none.path()), InvalidArgument);
}

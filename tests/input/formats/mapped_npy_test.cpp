#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/memory.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using test::bytes_of;
using test::flat_elements;
using test::npy_header;
using test::says;
using test::TemporaryFile;
using test::Values;

namespace mapped_npy_test {
/// A header whose array begins at a multiple of 64.
std::string aligned(const std::string& descr, const std::string& shape, bool fortran_order = false) {
  std::string text = "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
                     ", 'shape': " + shape + ", }";
  text.resize((text.size() + 10 + 64) / 64 * 64 - 10, ' ');
  return npy_header(text);
}

std::string numbers(std::int64_t count) {
  std::string data;
  for (std::int64_t i = 0; i < count; ++i) data += bytes_of(i);
  return data;
}
}  // namespace mapped_npy_test

using mapped_npy_test::aligned;
using mapped_npy_test::numbers;

TEST_CASE("map_npy gives a read-only tensor over the file, which outlives its name", "[input][host]") {
  Tensor array;
  const std::int64_t in_use = memory_stats("CPU:0").in_use_bytes;
  {
    const TemporaryFile file(aligned("<i8", "(3, 2)") + numbers(6));
    array = map_npy(file.path());
  }
  CHECK(memory_stats("CPU:0").in_use_bytes == in_use);
  CHECK(array.shape() == Shape(3, 2));
  CHECK(array.to_vector<std::int64_t>() == Values{0, 1, 2, 3, 4, 5});
  CHECK(array.is_read_only());
  CHECK_THROWS_AS(array.fill_(1), InvalidArgument);
  const Tensor row = array.slice(2, 3);
  array = Tensor();
  CHECK(row.to_vector<std::int64_t>() == Values{4, 5});
}

TEST_CASE("the rows of a mapped array are shuffled, sharded and batched as those of any tensor",
          "[input][host]") {
  const TemporaryFile file(aligned("<i8", "(10,)") + numbers(10));
  const auto rows = Dataset::from_tensor_slices(map_npy(file.path()));
  CHECK(rows.cardinality() == 10);
  CHECK(flat_elements(rows.shard(3, 1)) == Values{1, 4, 7});
  CHECK(flat_elements(rows.batch(4)) == test::sequence(0, 10));
  Values shuffled = flat_elements(rows.shuffle(10, 1));
  CHECK(shuffled != test::sequence(0, 10));
  std::sort(shuffled.begin(), shuffled.end());
  CHECK(shuffled == test::sequence(0, 10));
  // A row that an element has is a copy: to write to it changes nothing else.
  auto pass = rows.iterator();
  Tensor row = *pass.next_optional();
  row.fill_(77);
  CHECK(flat_elements(rows) == test::sequence(0, 10));
}

TEST_CASE("an array larger than the memory is mapped, and its last row read", "[input][host]") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "lockstep-sparse.npy";
  const std::int64_t num_rows = std::int64_t{1}
                                << 28;  // of 4 KiB: 1 TiB, of which almost nothing is on the disk
  {
    std::ofstream file(path, std::ios::binary);
    const std::string header = aligned("<i8", "(" + std::to_string(num_rows) + ", 512)");
    file << header;
    file.seekp(static_cast<std::streamoff>(header.size()) + num_rows * 4096 - 8);
    file << bytes_of(std::int64_t{42});
    if (!file.flush()) SKIP("the file system has no files of 1 TiB");
  }
  const auto rows = Dataset::from_tensor_slices(map_npy(path));
  std::filesystem::remove(path);
  CHECK(rows.cardinality() == num_rows);
  auto pass = rows.skip(num_rows - 1).iterator();
  CHECK(pass.next_optional()->to_vector<std::int64_t>().back() == 42);
  CHECK_FALSE(pass.next_optional());
}

TEST_CASE("an array that cannot be mapped is refused, with the call that reads it", "[input][host]") {
  const auto refuses = [](const std::string& bytes, const std::string& reason) {
    const TemporaryFile file(bytes);
    CHECK_THROWS_MATCHES(map_npy(file.path()), InvalidArgument,
                         says("map_npy: ", file.path().string(), reason, "or read it with load_npy."));
  };
  refuses(aligned(">i8", "(3,)") + numbers(3), "its elements have the other byte order");
  refuses(aligned("<i8", "(3, 2)", true) + numbers(6), "it is in Fortran order");
  refuses(aligned("|b1", "(3,)") + "123", "its bytes need not be booleans");
  refuses(npy_header("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }  ") + numbers(1),
          "not aligned");
  refuses(aligned("<i8", "(4,)") + numbers(3), "the array has more elements than the 3");
  refuses("text", "the magic string has 6 bytes");
  CHECK_THROWS_MATCHES(map_npy("/no/such"), NotFound, says("map_npy: \"/no/such\" cannot be opened"));
  const TemporaryFile column(aligned("<i8", "(3,)", true) + numbers(3));
  CHECK(map_npy(column.path()).to_vector<std::int64_t>() == Values{0, 1, 2});
  const TemporaryFile empty(aligned("<i8", "(0, 2)"));
  CHECK(map_npy(empty.path()).shape() == Shape(0, 2));
}

#include "input/formats/byte_source.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using detail::FileFault;
using detail::FileSource;
using detail::InputFile;
using test::says;
using test::TemporaryFile;

namespace byte_source_test {
std::shared_ptr<const InputFile> open(const TemporaryFile& file) {
  return std::make_shared<const InputFile>(file.path(), "test");
}

template <class F>
std::string fault_of(F&& f) {
  try {
    f();
  } catch (const FileFault& fault) {
    return std::to_string(fault.position) + fault.part + ": " + fault.reason;
  }
  return "no fault";
}
}  // namespace byte_source_test

using byte_source_test::fault_of;
using byte_source_test::open;

TEST_CASE("a part of a file is read front to back, in pieces of any size", "[input][host]") {
  std::string bytes;
  for (int i = 0; i < 200'000; ++i) bytes += static_cast<char>(i * 7 % 253);
  const TemporaryFile file(bytes);
  const std::size_t piece = GENERATE(1000, 65'535, 65'536, 150'000);
  FileSource source(open(file), 10, 199'990);
  std::string read;
  while (source.max_left() > 0) {
    CHECK(source.position() == 10 + read.size());
    std::string part(piece, '\0');
    part.resize(source.read_some(part.data(), part.size()));
    read += part;
  }
  CHECK(read == bytes.substr(10, 199'980));
  char byte;
  CHECK(source.read_some(&byte, 1) == 0);
}

TEST_CASE("small reads between large ones miss nothing", "[input][host]") {
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += static_cast<char>(i * 7 % 253);
  const TemporaryFile file(bytes);
  FileSource source(open(file));
  std::string read;
  for (const std::size_t size : {3, 100'000, 1, 65'533, 7, 70'000, 64'456}) {
    std::string part(size, '\0');
    source.read(part.data(), size, "a part");
    read += part;
  }
  CHECK(read == bytes);
}

TEST_CASE("what a file does not have is a fault where it should begin", "[input][host]") {
  const TemporaryFile file("12345");
  std::string bytes(5, '\0');
  FileSource source(open(file));
  source.read(bytes.data(), 3, "a part");
  CHECK(fault_of([&] { source.check_left(2, "the rest"); }) == "no fault");
  CHECK(fault_of([&] { source.check_left(3, "the rest"); }) ==
        "3: the rest has 3 bytes, but the file ends after 2");
  CHECK(fault_of([&] { FileSource(source).expect_end("the parts"); }) == "3: there is more after the parts");
  CHECK(fault_of([&] { source.read(bytes.data(), 3, "the rest"); }) ==
        "3: the rest has 3 bytes, but the file ends after 2");
  CHECK(fault_of([&] { source.expect_end("the parts"); }) == "no fault");
}

TEST_CASE("a file that is cut short while it is read is a fault", "[input][host]") {
  const TemporaryFile file("12345");
  FileSource source(open(file));
  std::filesystem::resize_file(file.path(), 2);
  std::string bytes(5, '\0');
  CHECK(fault_of([&] { source.read(bytes.data(), 5, "all"); }) ==
        "2: the file was cut short while it was read");
}

TEST_CASE("a file stays the same when another one takes its name", "[input][host]") {
  const test::TemporaryDirectory directory;
  test::write_bytes(directory / "a", "first");
  test::write_bytes(directory / "b", "other");
  FileSource source(std::make_shared<const InputFile>(directory / "a", "test"));
  std::filesystem::rename(directory / "b", directory / "a");
  std::string bytes(5, '\0');
  source.read(bytes.data(), 5, "all");
  CHECK(bytes == "first");
}

TEST_CASE("faults become errors that name operation, file, position, reason and remedy", "[input][host]") {
  const auto throws = [](const FileFault& fault) {
    detail::with_file_faults("test", "a file", "Pass another.", [&]() -> int { throw fault; });
  };
  CHECK_THROWS_MATCHES(throws({7, "it is wrong"}), InvalidArgument,
                       says("test: \"a file\", byte 7: it is wrong. Pass another."));
  CHECK_THROWS_MATCHES(throws({7, "it is wrong", " of a part"}), InvalidArgument,
                       says("test: \"a file\", byte 7 of a part: it is wrong. Pass another."));
  CHECK(detail::with_file_faults("test", "a file", "", [] { return 3; }) == 3);
}

TEST_CASE("a text's memory grows in steps, and not beyond what it can need", "[input][host]") {
  std::string text, expected;
  int num_moves = 0;
  for (int i = 0; i < 5000; ++i) {
    const char* const before = text.data();
    detail::append_within(text, "ab", 10'000);
    num_moves += text.data() != before;
    expected += "ab";
  }
  CHECK(text == expected);
  CHECK(text.capacity() == 10'000);
  CHECK(num_moves <= 12);
  detail::append_within(text, "", 10'000);
  CHECK(text == expected);
}

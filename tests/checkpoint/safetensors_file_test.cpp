#include "checkpoint/safetensors_file.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/error.hpp>
#include <lockstep/memory.hpp>

#include "support/matchers.hpp"
#include "support/safetensors_bytes.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using detail::SafetensorsFile;
using test::read_bytes;
using test::safetensors_bytes;
using test::safetensors_entry;
using test::says;
using test::TemporaryDirectory;
using test::write_bytes;

namespace {

void check_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryDirectory directory;
  write_bytes(directory / "f", bytes);
  const std::int64_t in_use = memory_stats("CPU:0").in_use_bytes;
  CHECK_THROWS_MATCHES(SafetensorsFile(directory / "f", "load"), InvalidArgument,
                       says("load: \"" + (directory / "f").string() + "\"", reason, "pass another one"));
  CHECK(memory_stats("CPU:0").in_use_bytes == in_use);
}

/// Element i is of the bytes i + 1, i + 2, …; booleans are true and false in turn.
Tensor patterned(const Shape& shape, DType dtype) {
  Tensor tensor = Tensor::empty(shape, dtype, "CPU:0");
  auto* const bytes = static_cast<std::uint8_t*>(tensor.size() > 0 ? tensor.data() : nullptr);
  for (std::int64_t i = 0; i < tensor.nbytes(); ++i)
    bytes[i] = static_cast<std::uint8_t>(dtype == DType::boolean ? i % 2 : i + 1);
  return tensor;
}

std::string bytes_in(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.view().data), static_cast<std::size_t>(tensor.nbytes())};
}

}  // namespace

TEST_CASE("tensors of every dtype and shape come back bit for bit", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  std::map<std::string, Tensor> tensors;
  for (int i = 0; i < kNumDTypes; ++i)
    for (const Shape& shape : {Shape(), Shape(0), Shape(3, 0, 5), Shape(1), Shape(7), Shape(2, 3, 5)}) {
      const auto dtype = static_cast<DType>(i);
      tensors.emplace(std::string(name(dtype)) + to_string(shape), patterned(shape, dtype));
    }
  detail::write_safetensors(directory / "f", tensors, "save");
  const SafetensorsFile file(directory / "f", "load");
  REQUIRE(file.entries().size() == tensors.size());
  for (const auto& [key, tensor] : tensors) {
    const Tensor read = file.read(file.entries().at(key));
    CHECK(read.dtype() == tensor.dtype());
    CHECK(read.shape() == tensor.shape());
    CHECK(read.device() == Device("CPU:0"));
    CHECK(bytes_in(read) == bytes_in(tensor));
  }
}

TEST_CASE("a written file is laid out as the format says", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const std::map<std::string, Tensor> tensors{{"b", Tensor::from<float>({1.0f}, {1}, "CPU:0")},
                                              {"a", Tensor::from<std::uint8_t>({9, 8}, {2}, "CPU:0")},
                                              {"c", Tensor::scalar(std::int64_t{-2}, "CPU:0")}};
  detail::write_safetensors(directory / "f", tensors, "save");
  std::string header = "{" + safetensors_entry("c", "I64", "", "0,8") + "," +
                       safetensors_entry("b", "F32", "1", "8,12") + "," +
                       safetensors_entry("a", "U8", "2", "12,14") + "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string data("\xfe\xff\xff\xff\xff\xff\xff\xff\0\0\x80\x3f\x09\x08", 14);
  CHECK(read_bytes(directory / "f") == safetensors_bytes(header, data));
  detail::write_safetensors(directory / "g", {}, "save");
  CHECK(read_bytes(directory / "g") == safetensors_bytes("{}      "));
}

TEST_CASE("any byte but 0 is true", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "f", safetensors_bytes("{" + safetensors_entry("b", "BOOL", "4", "0,4") + "}",
                                                 std::string_view("\0\1\2\xff", 4)));
  const SafetensorsFile file(directory / "f", "load");
  CHECK(bytes_in(file.read(file.entries().at("b"))) == std::string("\0\1\1\1", 4));
}

TEST_CASE("data need not be aligned", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const std::string header =
      "{" + safetensors_entry("a", "U8", "1", "0,1") + "," + safetensors_entry("b", "F64", "", "1,9") + "}";
  write_bytes(directory / "f", safetensors_bytes(header, std::string_view("\7\0\0\0\0\0\0\xf0\x3f", 9)));
  const SafetensorsFile file(directory / "f", "load");
  CHECK(file.read(file.entries().at("b")).item<double>() == 1.0);
}

TEST_CASE("what cannot be opened is not found", "[checkpoint][host]") {
  CHECK_THROWS_MATCHES(SafetensorsFile("/nowhere/at all", "load"), NotFound,
                       says("load: \"/nowhere/at all\" cannot be opened: No such file", "Check the path"));
}

TEST_CASE("what is not a file is refused, and not waited for", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  CHECK_THROWS_MATCHES(SafetensorsFile(directory.path(), "load"), InvalidArgument,
                       says("it is not a regular file"));
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_MATCHES(SafetensorsFile(directory / "pipe", "load"), InvalidArgument,
                       says("it is not a regular file"));
}

TEST_CASE("a header that is not in the file is refused", "[checkpoint][host]") {
  check_refused("", ": it has 0 bytes, too few for the 8 of the header's length");
  check_refused("1234567", ": it has 7 bytes, too few");
  check_refused(std::string(8, '\0'), ": its header does not begin with '{'");
  check_refused(safetensors_bytes("{}").substr(0, 9), ": its header has 2 bytes, but the file ends after 1");
  check_refused(std::string(8, '\xff') + "{}",
                ": its header has 18446744073709551615 bytes, but the file ends after 2");
  check_refused("PK\3\4 an archive", "but the file ends after");
}

TEST_CASE("a header longer than the format allows is refused before it is read", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{100'000'001} >> (8 * i) & 0xff);
  write_bytes(directory / "f", bytes);
  REQUIRE(truncate((directory / "f").c_str(), 200'000'000) == 0);  // without blocks on the disk
  CHECK_THROWS_MATCHES(SafetensorsFile(directory / "f", "load"), InvalidArgument,
                       says("its header has 100000001 bytes, more than the 100000000"));
}

TEST_CASE("damage is named with its entry", "[checkpoint][host]") {
  const std::string w = safetensors_entry("w", "F32", "2", "0,8");
  check_refused(safetensors_bytes("{" + w + "}", "1234567"),
                ", entry 'w': its data_offsets [0, 8) exceed the 7 bytes of data");
  check_refused(safetensors_bytes("{" + w + "}", "123456789"), ": it has 1 bytes after the data");
  check_refused(safetensors_bytes("{" + w + "," + w + "}", "12345678"), ", entry 'w': it is there twice");
  check_refused(
      safetensors_bytes("{" + safetensors_entry("x", "F32", "1000000000000", "0,4000000000000") + "}", "1"),
      ", entry 'x': its data_offsets [0, 4000000000000) exceed the 1 bytes");
  check_refused(safetensors_bytes("not JSON"), ": its header does not begin");
}

TEST_CASE("a file that is cut short while it is read is refused", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "f",
              safetensors_bytes("{" + safetensors_entry("w", "F32", "2", "0,8") + "}", "12345678"));
  const SafetensorsFile file(directory / "f", "load");
  std::filesystem::resize_file(directory / "f", std::filesystem::file_size(directory / "f") - 1);
  CHECK_THROWS_MATCHES(file.read(file.entries().at("w")), InvalidArgument,
                       says("load: ", ", entry 'w': the file was cut short while it was read"));
}

TEST_CASE("a file that is replaced while it is read stays what it was", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  detail::write_safetensors(directory / "f", {{"w", Tensor::scalar(1.0f, "CPU:0")}}, "save");
  const SafetensorsFile file(directory / "f", "load");
  detail::write_safetensors(directory / "f", {{"other", Tensor::scalar(2.0, "CPU:0")}}, "save");
  CHECK(file.read(file.entries().at("w")).item<float>() == 1.0f);
}

TEST_CASE("a header too long to be read is not written", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const std::map<std::string, Tensor> tensors{{std::string(100'000'000, 'k'), Tensor::scalar(1.0f, "CPU:0")}};
  CHECK_THROWS_MATCHES(
      detail::write_safetensors(directory / "f", tensors, "save"), InvalidArgument,
      says("save: ", "would have a header of 100000", "more than the 100000000", "Use shorter keys"));
  CHECK(directory.names().empty());
}

TEST_CASE("a system's error while reading a safetensors file is no fault of the file's",
          "[checkpoint][host]") {
  CHECK_THROWS_MATCHES(SafetensorsFile("/proc/self/mem", "load"), Error,
                       says("load: \"/proc/self/mem\" cannot be read: Input/output error", "device"));
}

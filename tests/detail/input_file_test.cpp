#include "detail/input_file.hpp"

#include <cerrno>
#include <filesystem>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using detail::FileFault;
using detail::InputFile;
using test::says;
using test::TemporaryDirectory;
using test::write_bytes;

namespace {

template <class F>
FileFault fault_of(F&& f) {
  try {
    f();
  } catch (const FileFault& fault) {
    return fault;
  }
  return {0, "no fault"};
}

}  // namespace

TEST_CASE("bytes of a regular file are read wherever they are", "[detail][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "f", "0123456789");
  const InputFile file(directory / "f", "load");
  CHECK(file.size_bytes() == 10);
  std::string bytes(3, ' ');
  file.read_at(4, bytes.data(), 3);
  CHECK(bytes == "456");
  write_bytes(directory / "e", "");
  CHECK(InputFile(directory / "e", "load").size_bytes() == 0);
}

TEST_CASE("a file that is not there is named, with the operation and the reason", "[detail][host]") {
  CHECK_THROWS_MATCHES(InputFile("/no/such", "load"), NotFound,
                       says("load: \"/no/such\" cannot be opened: No such file", "Check the path"));
}

TEST_CASE("a symbolic link is followed or refused", "[detail][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "f", "0123456789");
  std::filesystem::create_symlink("f", directory / "link");
  CHECK(InputFile(directory / "link", "load").size_bytes() == 10);
  CHECK(InputFile(directory / "f", "load", detail::Links::refused).size_bytes() == 10);
  const FileFault link = fault_of([&] { InputFile(directory / "link", "load", detail::Links::refused); });
  CHECK(link.reason == "it is a symbolic link, which may lead to another's file");
}

TEST_CASE("what is no regular file, or does not say its size, is a fault", "[detail][host]") {
  const FileFault folder = fault_of([] { InputFile("/tmp", "load"); });
  CHECK(folder.reason == "it is not a regular file");
  CHECK(folder.code == 0);
  const FileFault kernels = fault_of([] { InputFile("/proc/self/status", "load"); });
  CHECK(kernels.reason == "it has a size of 0, but bytes, as files of the kernel's do. Copy it to a disk");
  CHECK(kernels.code == 0);
}

TEST_CASE("a file that is cut short while it is read is a fault where it ends", "[detail][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "f", "0123456789");
  const InputFile file(directory / "f", "load");
  std::filesystem::resize_file(directory / "f", 6);
  std::string bytes(10, ' ');
  const FileFault fault = fault_of([&] { file.read_at(0, bytes.data(), 10); });
  CHECK(fault.position == 6);
  CHECK(fault.reason == "the file was cut short while it was read");
  CHECK(fault.code == 0);
}

TEST_CASE("a system's error while reading is a fault with its code", "[detail][host]") {
  const FileFault fault = fault_of([] { InputFile("/proc/self/mem", "load"); });  // nothing is mapped at 0
  CHECK(fault.reason == "it cannot be read: Input/output error");
  CHECK(fault.code == EIO);
}

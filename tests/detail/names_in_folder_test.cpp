#include "detail/names_in_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "support/failing_memory.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::TemporaryDirectory;

using Names = std::vector<std::string>;

TEST_CASE("a folder's names are those of everything in it", "[detail][host]") {
  const TemporaryDirectory folder;
  std::error_code error(EIO, std::generic_category());
  CHECK(detail::names_in_folder(folder.path(), error).empty());
  CHECK_FALSE(error);
  test::write_bytes(folder / "b", "");
  test::write_bytes(folder / ".a", "");
  std::filesystem::create_directory(folder / "c");
  Names names = detail::names_in_folder(folder.path(), error);
  std::ranges::sort(names);
  CHECK(names == Names{".a", "b", "c"});
  CHECK_FALSE(error);
}

TEST_CASE("why a folder cannot be read is told", "[detail][host]") {
  const TemporaryDirectory folder;
  std::error_code error;
  CHECK(detail::names_in_folder(folder / "none", error).empty());
  CHECK(error == std::errc::no_such_file_or_directory);
  test::write_bytes(folder / "file", "");
  CHECK(detail::names_in_folder(folder / "file", error).empty());
  CHECK(error == std::errc::not_a_directory);
}

TEST_CASE("a folder that is read without memory throws, and ends nothing", "[detail][memory][host]") {
  const TemporaryDirectory folder;
  test::write_bytes(folder / "a name that is longer than a string holds in itself", "");
  bool has_thrown = false;
  std::error_code error;
  {
    const test::FailingMemory failing(test::Memory::heap, 1);
    try {
      detail::names_in_folder(folder.path(), error);
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
  }
  CHECK(has_thrown);
}

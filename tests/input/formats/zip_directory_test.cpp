#include "input/formats/zip_directory.hpp"

#include <functional>

#include <catch2/catch_test_macros.hpp>

#include "support/zip_file.hpp"

using namespace lockstep;
using detail::FileFault;
using test::put;
using test::TemporaryFile;
using test::zip_archive;

namespace zip_directory_test {
std::string fault_of(const std::string& archive) {
  const TemporaryFile file(archive);
  try {
    detail::read_zip_directory(detail::InputFile(file.path(), "test"));
  } catch (const FileFault& fault) {
    return std::to_string(fault.position) + ": " + fault.reason;
  }
  return "no fault";
}

/// An archive of two members, changed.
std::string changed(
    const std::function<void(std::string& archive, std::size_t entry, std::size_t end)>& change,
    bool zip64 = false) {
  std::string archive = zip_archive({{"a", "first", false, zip64}, {"b", "second"}}, zip64);
  change(archive, archive.find("PK\1\2"), archive.rfind("PK\5\6"));
  return fault_of(archive);
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}
}  // namespace zip_directory_test

using zip_directory_test::changed;
using zip_directory_test::fault_of;
using zip_directory_test::has;

TEST_CASE("a directory gives each member's place", "[input][npz][host]") {
  const TemporaryFile file(zip_archive({{"a", "first"}, {"bc", "xxxxxxxxxxxxxxxxxxxxxx", true}}));
  const auto members = detail::read_zip_directory(detail::InputFile(file.path(), "test"));
  REQUIRE(members.size() == 2);
  CHECK(members[0].name == "a");
  CHECK(members[0].begin == 31);
  CHECK(members[0].end == 36);
  CHECK(members[1].name == "bc");
  CHECK(members[1].is_deflated);
  CHECK(members[1].header == 36);
  CHECK(members[1].size_bytes == 22);
  CHECK(fault_of(zip_archive({})) == "no fault");
  CHECK(fault_of(zip_archive({}, true)) == "no fault");
}

TEST_CASE("what is no archive, or is cut short, has no directory", "[input][npz][host]") {
  const std::string archive = zip_archive({{"a", "first"}});
  has(fault_of(""), "0: it has 0 bytes, too few for a zip archive");
  has(fault_of(std::string(100, 'x')), "100: there is no end of a zip archive's central directory");
  has(fault_of(archive.substr(0, archive.size() - 1)), "there is no end");
  has(fault_of(archive + "x"), "there is no end");
  has(fault_of(archive + "\nx"), "there is no end");
  has(fault_of(archive.substr(40)), "the directory is said to have 47 bytes from byte 36");
}

TEST_CASE("a directory that lies about itself is refused", "[input][npz][host]") {
  has(changed([](auto& a, auto, auto end) { put(a, end + 12, std::uint32_t{0x7fffffff}); }),
      "the directory is said to have 2147483647 bytes");
  has(changed([](auto& a, auto, auto end) { put(a, end + 16, std::uint32_t{0x7fffffff}); }),
      "from byte 2147483647");
  has(changed([](auto& a, auto, auto end) {
        put(a, end + 8, std::uint16_t{60000});
        put(a, end + 10, std::uint16_t{60000});
      }),
      "are too few for 60000 members");
  has(changed([](auto& a, auto, auto end) { put(a, end + 4, std::uint16_t{1}); }), "several disks");
  has(changed([](auto& a, auto entry, auto) { a[entry] = 'x'; }), "does not have the 2 members");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 28, std::uint16_t{9999}); }),
      "names do not fit the directory");
}

TEST_CASE("a directory that lies about a member is refused", "[input][npz][host]") {
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 8, std::uint16_t{1}); }), "is encrypted");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 10, std::uint16_t{12}); }),
      "compressed by method 12");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 42, std::uint32_t{0x7fffffff}); }),
      "said to begin at byte 2147483647, which is not before the directory");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 42, std::uint32_t{1}); }),
      "1: no member begins here");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 20, std::uint32_t{0x7fffffff}); }),
      "0: a member's 2147483647 bytes are not before the directory");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 24, std::uint32_t{6}); }),
      "a member's 5 bytes cannot be the 6 that the directory says");
  has(changed([](auto& a, auto entry, auto) { a[entry + 46] = 'x'; }),
      "another name than the directory says");
  has(changed([](auto& a, auto, auto) { put(a, 8, std::uint16_t{8}); }), "compressed in another way");
  has(changed([](auto& a, auto, auto) { put(a, 26, std::uint16_t{60000}); }), "are not before the directory");
}

TEST_CASE("members that overlap, which could inflate to any size, are refused", "[input][npz][host]") {
  // The second entry is the first member again.
  has(changed([](auto& a, auto entry, auto) { a.replace(entry + 47, 47, a.substr(entry, 47)); }),
      "0: a member overlaps the one before it");
  has(fault_of(zip_archive({{"a", "first"}, {"a", "second"}})), "a member has the name of another one");
}

TEST_CASE("zip64 fields that are missing or lie are refused", "[input][npz][host]") {
  constexpr bool kZip64 = true;
  const auto none = [](auto&, auto, auto) {};
  CHECK(changed(none, kZip64) == "no fault");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 47, std::uint16_t{2}); }, kZip64),
      "a member's zip64 sizes are missing");
  has(changed([](auto& a, auto entry, auto) { put(a, entry + 49, std::uint16_t{8}); }, kZip64),
      "a member's zip64 sizes are missing");
  has(changed([](auto& a, auto, auto end) { a[end - 20] = 'x'; }, kZip64),
      "the zip64 end of the directory is not where it should be");
  has(changed([](auto& a, auto, auto end) { put(a, end - 12, std::uint64_t{0} - 1); }, kZip64),
      "the zip64 end of the directory is not where it should be");
  has(changed([](auto& a, auto, auto end) { put(a, end - 12, std::uint64_t{0}); }, kZip64),
      "0: the zip64 end of the directory is not where it should be");
  std::string short_archive = zip_archive({});
  put(short_archive, 16, std::uint32_t{0xffffffff});
  has(fault_of(short_archive), "the zip64 end of the directory is missing");
}

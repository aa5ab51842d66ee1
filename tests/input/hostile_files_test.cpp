// Files that are none, and small files that say they are large: each is refused, and without the memory that
// it asks for.
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/files.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/input/numpy.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/sanitizers.hpp"
#include "support/matchers.hpp"
#include "support/safetensors_bytes.hpp"
#include "support/tar_file.hpp"
#include "support/temporary_directory.hpp"
#include "support/tf_record_file.hpp"
#include "support/zip_file.hpp"

using namespace lockstep;
using Path = std::filesystem::path;
using readers::Compression;
using test::bytes_of;
using test::gzipped;
using test::npy_header;
using test::says;
using test::TemporaryFile;

namespace {

using Read = std::function<void(const Path&)>;

/// All elements of a file.
template <class Reader>
Read all_of(Reader reader) {
  return [reader = std::move(reader)](const Path& path) {
    auto elements = reader(path);
    while (elements()) {
    }
  };
}

/// Whatever reads files, by name.
std::map<std::string, Read> all_reads() {
  std::map<std::string, Read> reads{
      {"lines", all_of(readers::lines())},
      {"lines of gzip", all_of(readers::lines({.compression = Compression::gzip}))},
      {"csv", all_of(readers::csv({.columns = {DType::f32}}))},
      {"records", all_of(readers::records({.record_bytes = 4}))},
      {"npy", all_of(readers::npy())},
      {"npz", all_of(readers::npz())},
      {"idx", all_of(readers::idx())},
      {"load_npy", [](const Path& path) { static_cast<void>(load_npy(path)); }},
      {"load_npz", [](const Path& path) { static_cast<void>(load_npz(path)); }},
      {"map_npy", [](const Path& path) { static_cast<void>(map_npy(path)); }},
      {"read_file", [](const Path& path) { static_cast<void>(read_file(path)); }},
      {"make_numpy_dataset", [](const Path& path) { static_cast<void>(detail::make_numpy_dataset(path)); }},
      {"cache", [](const Path& path) { Dataset::range(3).cache(path).iterator().next(); }},
      {"Checkpoint::restore", [](const Path& path) {
         Checkpoint checkpoint({{"v", Variable(Tensor::scalar(1.0f))}});
         checkpoint.restore(path);
       }}};
#ifdef LOCKSTEP_HAS_ISAL
  reads.emplace("tf_record", all_of(readers::tf_record()));
#endif
#ifdef LOCKSTEP_HAS_ARCHIVE
  reads.emplace("tar", all_of(readers::tar()));
#endif
  return reads;
}

/// While it lives, the process gets this much more memory at most.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::uint64_t size_bytes) {
    std::uint64_t num_pages = 0;
    std::ifstream("/proc/self/statm") >> num_pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = num_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + size_bytes;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

/// How a file of these bytes is refused, in 64 MiB; "": it is not.
std::string refusal(const Read& read, std::string_view bytes) {
  constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;
  const TemporaryFile file(bytes);
  const MemoryLimit limit(kMemory);
  try {
    read(file.path());
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is no file is refused by whatever reads files, and not waited for", "[input][host]") {
  const test::TemporaryDirectory directory;
  REQUIRE(::mkfifo((directory / "pipe").c_str(), 0600) == 0);
  for (const auto& [name, read] : all_reads()) {
    for (const Path& path : {directory / "pipe", Path("/dev/zero"), directory.path()}) {
      CAPTURE(name, path);
      CHECK_THROWS_MATCHES(read(path), InvalidArgument, says(path.string(), "it is not a regular file"));
    }
  }
  // A file of the kernel's says that it is empty.
  CHECK_THROWS_MATCHES(read_file("/proc/self/maps"), InvalidArgument, says("as files of the kernel's do"));
}

TEST_CASE("a small file that says it is large takes no memory for that", "[input][host]") {
  if (LOCKSTEP_ADDRESS_SANITIZER || LOCKSTEP_THREAD_SANITIZER) SKIP("a sanitizer's memory has no limit");
  static_cast<void>(Tensor::zeros({1}));  // what is made once
  const std::map<std::string, Read> reads = all_reads();
  const auto check = [&](const char* reader, std::string_view bytes, std::string_view why) {
    CAPTURE(reader, bytes.substr(0, 100));
    CHECK_THAT(refusal(reads.at(reader), bytes), Catch::Matchers::ContainsSubstring(std::string(why)));
  };
  for (const char* reader : {"npy", "load_npy", "map_npy"}) {
    for (const char* shape : {"(4611686018427387904,)", "(2147483648, 2147483648, 2)", "(1099511627776, 8)"})
      check(reader, npy_header("|u1", shape) + "x", "elements");
    check(reader, "\x93NUMPY\x02" + std::string(1, '\0') + "\xff\xff\xff\xff{", "header");
  }
  for (const bool deflated : {false, true})
    for (const char* reader : {"npz", "load_npz"})
      check(reader,
            test::zip_archive(
                {{"a.npy", npy_header("<f8", "(1099511627776,)") + std::string(999, 'x'), deflated}}),
            "a");
  check("idx", std::string("\0\0\x08\x02\x7f\xff\xff\xff\x7f\xff\xff\xffx", 13), "elements");
  check("idx", gzipped(std::string("\0\0\x08\x01\xff\xff\xff\xff", 8)), "elements");
  check("lines of gzip", gzipped(gzipped(std::string(1 << 20, 'x'))).substr(0, 20), "cut short");
  check("cache", std::string(1000, '\xff'), "cache");
  check("Checkpoint::restore", bytes_of(std::uint64_t{1} << 63) + "{}",
        "its header has 9223372036854775808 bytes");
  check("Checkpoint::restore", test::safetensors_bytes(std::string(1 << 20, '[')), "its header");
  check("Checkpoint::restore",
        test::safetensors_bytes(
            "{" + test::safetensors_entry("v", "F32", "1099511627776", "0,4398046511104") + "}"),
        "exceed the 0 bytes of data");
#ifdef LOCKSTEP_HAS_ARCHIVE
  check("tar", test::tar_member("1.a", "x").replace(124, 11, "77777777777") + test::tar_end(),
        "readers::tar");
#endif
#ifdef LOCKSTEP_HAS_ISAL
  const std::string length = bytes_of(std::uint64_t{1} << 63);
  check("tf_record", length + bytes_of(std::rotr(test::plain_crc32c(length), 15) + 0xa282ead8U) + "x",
        "9223372036854775808 bytes");
#endif
}

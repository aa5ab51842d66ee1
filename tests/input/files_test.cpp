#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/resource.h>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/files.hpp>
#include <lockstep/input/readers.hpp>

#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::says;

namespace files_test {
using Names = std::vector<std::string>;

/// A folder with files of given names; each has its name as its one line.
class Folder {
 public:
  explicit Folder(const Names& names) {
    for (const std::string& name : names) {
      std::filesystem::create_directories((folder_.path() / name).parent_path());
      std::ofstream(folder_.path() / name) << name << '\n';
    }
  }
  std::string operator/(const std::string& pattern) const { return (folder_.path() / pattern).string(); }
  /// The paths that a dataset has, without the folder.
  Names names(const TypedDataset<Tensor>& paths) const {
    Names all;
    for (const Tensor& path : paths)
      all.push_back(std::filesystem::path(readers::text(path)).lexically_relative(folder_.path()).string());
    return all;
  }

 private:
  test::TemporaryDirectory folder_;
};

Names sorted(Names names) {
  std::sort(names.begin(), names.end());
  return names;
}
}  // namespace files_test

using files_test::Folder;
using files_test::Names;
using files_test::sorted;

TEST_CASE("list_files gives the paths that match, in order", "[input][host]") {
  const Folder folder({"b.txt", "a.txt", "B.txt", "a.csv", ".hidden.txt", "sub/c.txt", "sub/d.txt", "x*y"});
  const auto list = [&](const std::string& pattern) {
    return folder.names(list_files(folder / pattern, false));
  };
  CHECK(list("*.txt") == Names{".hidden.txt", "B.txt", "a.txt", "b.txt"});
  CHECK(list("?.txt") == Names{"B.txt", "a.txt", "b.txt"});
  CHECK(list("[ab].txt") == Names{"a.txt", "b.txt"});
  CHECK(list("*/*.txt") == Names{"sub/c.txt", "sub/d.txt"});
  CHECK(list("a.txt") == Names{"a.txt"});
  CHECK(list("x\\*y") == Names{"x*y"});
  CHECK(list("sub/../a.*") == Names{"sub/../a.csv", "sub/../a.txt"});
  CHECK(folder.names(list_files({folder / "a.*", folder / "*.txt"}, false)) ==
        Names{".hidden.txt", "B.txt", "a.csv", "a.txt", "b.txt"});
  CHECK(list_files(folder / "*.txt").cardinality() == 4);
}

TEST_CASE("a pattern that matches nothing is refused", "[input][host]") {
  const Folder folder({"a.txt"});
  CHECK_THROWS_MATCHES(list_files(folder / "*.csv"), InvalidArgument,
                       says("list_files: no file matches", "*.csv"));
  CHECK_THROWS_MATCHES(list_files({folder / "1", folder / "2"}), InvalidArgument,
                       says("/1", "nor any of the other patterns"));
  CHECK_THROWS_MATCHES(list_files(Names{}), InvalidArgument, says("list_files: no file matches no pattern"));
}

TEST_CASE("shuffled files come in another order in each pass, which the seed repeats", "[input][host]") {
  Names names;
  for (char c = 'a'; c <= 'p'; ++c) names.emplace_back(1, c);
  const Folder folder(names);
  const auto files = list_files(folder / "*", true, 5), again = list_files(folder / "*", true, 5);
  const Names first = folder.names(files), second = folder.names(files);
  CHECK(first != names);
  CHECK(first != second);
  CHECK(sorted(first) == names);
  CHECK(sorted(second) == names);
  CHECK(folder.names(again) == first);
  CHECK(folder.names(again) == second);
}

TEST_CASE("files that interleave reads are shared out by file, shuffled or not", "[input][host]") {
  Names names;
  for (char c = 'a'; c <= 'g'; ++c) names.emplace_back(1, c);
  const Folder folder(names);
  for (const bool shuffle : {false, true}) {
    const auto rows = list_files(folder / "*", shuffle)
                          .interleave(
                              [](const Tensor& path) {
                                return Dataset::from_files({readers::text(path)}, readers::lines());
                              },
                              2);
    std::vector<TypedDataset<Tensor>> shards;
    for (int i = 0; i < 3; ++i)
      shards.push_back(auto_shard(rows, InputContext(3, i, 3), AutoShardPolicy::file));
    for (int pass = 0; pass < 3; ++pass) {
      Names all;
      for (std::size_t i = 0; i < shards.size(); ++i) {
        Names of_shard;
        for (const Tensor& line : shards[i]) of_shard.push_back(readers::text(line));
        CHECK(of_shard.size() == (i == 0 ? 3 : 2));
        all.insert(all.end(), of_shard.begin(), of_shard.end());
      }
      CHECK(sorted(all) == names);
    }
  }
}

TEST_CASE("read_file gives a file's bytes", "[input][host]") {
  const test::TemporaryFile file(std::string("a\0b\n", 4)), empty("");
  const Tensor bytes = read_file(file.path());
  CHECK(bytes.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{'a', 0, 'b', '\n'});
  CHECK(read_file(empty.path()).shape() == Shape(0));
  CHECK_THROWS_MATCHES(read_file("/no/such"), NotFound, says("read_file: \"/no/such\" cannot be opened"));
  CHECK_THROWS_MATCHES(read_file("/tmp"), InvalidArgument,
                       says("read_file: \"/tmp\"", "it is not a regular file"));
}

TEST_CASE("list_files leaves out no folder that it could not read", "[input][host]") {
  const Folder folder({"a/1.txt", "b/2.txt"});
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  std::string message;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  try {
    static_cast<void>(list_files(folder / "*/*.txt", false));
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK_THAT(message, Catch::Matchers::ContainsSubstring("*/*.txt") &&
                          Catch::Matchers::ContainsSubstring("cannot be read: Too many open files"));
  CHECK(folder.names(list_files(folder / "*/*.txt", false)) == Names{"a/1.txt", "b/2.txt"});
  CHECK_THROWS_MATCHES(list_files(folder / "none/*.txt"), InvalidArgument, says("no file matches"));
}

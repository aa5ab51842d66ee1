#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>

#include "support/matchers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using test::says;

#ifdef LOCKSTEP_HAS_ARCHIVE

#include "support/tar_file.hpp"
#include "support/zip_file.hpp"
#ifdef LOCKSTEP_HAS_ZSTD
#include "support/zstd_file.hpp"
#endif

using test::tar_archive;
using test::tar_end;
using test::tar_member;
using test::TemporaryFile;

namespace tar_test {
using Sample = std::map<std::string, std::string>;

/// The samples, and as {"error": ...} what is wrong with those that are bad.
std::vector<Sample> samples_of(const std::string& bytes, const readers::TarOptions& options = {}) {
  const TemporaryFile file(bytes);
  auto next = readers::tar(options)(file.path());
  std::vector<Sample> all;
  for (;;) {
    try {
      const auto parts = next();
      if (!parts) return all;
      Sample sample;
      for (const auto& [name, part] : *parts) sample[name] = readers::text(part);
      all.push_back(sample);
    } catch (const readers::BadRecord& error) {
      const std::string message = error.what();
      CHECK(message.find("readers::tar: \"" + file.path().string() + "\", byte ") == 0);
      all.push_back({{"error", message.substr(message.find(", byte ") + 2)}});
    }
  }
}

std::string error_of(const std::string& bytes) {
  try {
    samples_of(bytes);
    return "none";
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}
}  // namespace tar_test

using tar_test::error_of;
using tar_test::Sample;
using tar_test::samples_of;
using Samples = std::vector<Sample>;

TEST_CASE("the members of an archive are grouped by what comes before the first dot of their names",
          "[input][host]") {
  const std::string bytes = tar_archive({{"a/0001.jpg", "J1"},
                                         {"a/0001.seg.PNG", "P1"},
                                         {"a/0001.cls", ""},
                                         {"readme", "no part"},
                                         {"__index__/0001.jpg", "no part"},
                                         {".hidden.jpg", "no part"},
                                         {"a.b/0002.jpg", "J2"}});
  const Samples samples{{{"__key__", "a/0001"}, {"jpg", "J1"}, {"seg.png", "P1"}, {"cls", ""}},
                        {{"__key__", "a.b/0002"}, {"jpg", "J2"}}};
  CHECK(samples_of(bytes) == samples);
  CHECK(samples_of(tar_end()).empty());
  CHECK(samples_of("").empty());
}

TEST_CASE("folders and links are no members of samples", "[input][host]") {
  const std::string bytes =
      tar_member("a.dir/", "", '5') + tar_member("a.jpg", "", '2') + tar_member("b.jpg", "J") + tar_end();
  CHECK(samples_of(bytes) == Samples{{{"__key__", "b"}, {"jpg", "J"}}});
}

TEST_CASE("compressed archives are read, in several members or frames too", "[input][host]") {
  const std::string large(200'000, 'x');
  const std::string bytes = tar_archive({{"1.txt", large}, {"2.txt", "two"}});
  const Samples samples{{{"__key__", "1"}, {"txt", large}}, {{"__key__", "2"}, {"txt", "two"}}};
  CHECK(samples_of(bytes) == samples);
  CHECK(samples_of(test::gzipped(bytes)) == samples);
  CHECK(samples_of(test::gzipped(bytes.substr(0, 1000)) + test::gzipped(bytes.substr(1000))) == samples);
#ifdef LOCKSTEP_HAS_ZSTD
  CHECK(samples_of(test::zstd_frame(bytes.substr(0, 1000)) + test::zstd_frame(bytes.substr(1000))) ==
        samples);
#endif
}

TEST_CASE("only the parts that are wanted are read, and a sample without one is left out", "[input][host]") {
  const std::string bytes =
      tar_archive({{"1.jpg", "J1"}, {"1.json", "{}"}, {"2.json", "{}"}, {"3.jpg", "J3"}, {"3.cls", "3"}});
  const Samples samples = samples_of(bytes, {.extensions = {"jpg"}});
  REQUIRE(samples.size() == 3);
  CHECK(samples[0] == Sample{{"__key__", "1"}, {"jpg", "J1"}});
  CHECK(samples[1].at("error").find("byte 2048: sample 1, '2': it has no part 'jpg'. Pass a tar archive") ==
        0);
  CHECK(samples[2] == Sample{{"__key__", "3"}, {"jpg", "J3"}});
}

TEST_CASE("a sample that is too large, or has a part twice, is left out", "[input][host]") {
  const std::string bytes =
      tar_archive({{"1.a", "123"}, {"1.b", "45"}, {"2.a", "1234"}, {"3.a", "1"}, {"3.A", "2"}, {"4.a", "1"}});
  const Samples samples = samples_of(bytes, {.max_record_bytes = 4});
  REQUIRE(samples.size() == 4);
  CHECK(samples[0].at("error").find("byte 0: sample 0, '1': it has more than max_record_bytes, 4") == 0);
  CHECK(samples[1] == Sample{{"__key__", "2"}, {"a", "1234"}});
  CHECK(samples[2].at("error").find("sample 2, '3': it has two parts 'a'") != std::string::npos);
  CHECK(samples[3] == Sample{{"__key__", "4"}, {"a", "1"}});
  CHECK_THROWS_MATCHES(readers::tar({.max_record_bytes = -1}), InvalidArgument,
                       says("readers::tar: max_record_bytes is -1. Pass 0 or more."));
}

TEST_CASE("a sample of very many parts is left out", "[input][host]") {
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < 9000; ++i) members.emplace_back("1." + std::to_string(i), "");
  members.emplace_back("2.a", "x");
  const Samples samples = samples_of(tar_archive(members));
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].at("error").find("sample 0, '1': it has more parts, or longer names") !=
        std::string::npos);
  CHECK(samples[1] == Sample{{"__key__", "2"}, {"a", "x"}});
}

TEST_CASE("a damaged header costs the sample that follows it, and no more", "[input][host]") {
  std::string bytes = tar_archive({{"1.a", "x"}, {"2.a", "x"}, {"2.b", "y"}, {"3.a", "x"}});
  bytes[1024] ^= 1;  // 2.a
  const Samples samples = samples_of(bytes);
  REQUIRE(samples.size() == 3);
  CHECK(samples[0] == Sample{{"__key__", "1"}, {"a", "x"}});
  CHECK(samples[1].at("error").find("sample 1, '2': a header in it or before it is damaged") !=
        std::string::npos);
  CHECK(samples[2] == Sample{{"__key__", "3"}, {"a", "x"}});
  std::string last = tar_archive({{"1.a", "x"}, {"2.a", "x"}});
  last[1024] ^= 1;
  const Samples before = samples_of(last);
  REQUIRE(before.size() == 2);
  CHECK(before[0] == Sample{{"__key__", "1"}, {"a", "x"}});
  CHECK(before[1].at("error").find("a header is damaged, and no member follows it") != std::string::npos);

  const TemporaryFile file(bytes), other(tar_archive({{"4.a", "x"}}));
  std::vector<std::string> keys;
  const auto dataset = Dataset::from_files({file.path(), other.path()}, readers::tar());
  for (const auto& sample : dataset.ignore_errors(1, [](auto&&...) {}))
    keys.push_back(readers::text(sample.at("__key__")));
  CHECK(keys == std::vector<std::string>{"1", "3", "4"});
}

TEST_CASE("an archive that is cut short, or is none, is refused there", "[input][host]") {
  const std::string bytes = tar_archive({{"1.a", "one"}, {"2.a", std::string(2000, 'x')}});
  CHECK(error_of(bytes.substr(0, 1024 + 512 + 700)).find("the archive is damaged: ") != std::string::npos);
  const std::string gzipped = test::gzipped(bytes);
  CHECK(error_of(gzipped.substr(0, 80)).find("the compressed data is cut short") != std::string::npos);
  CHECK(error_of("no archive at all, but text that is longer than nothing").find("readers::tar: ") == 0);
  const std::string huge = tar_member("1.a", "x").replace(124, 11, "77777777777");
  CHECK(error_of(huge + tar_end()) != "none");
  CHECK_THROWS_MATCHES(readers::tar()("/no/such"), NotFound,
                       says("readers::tar: \"/no/such\" cannot be opened"));
  // What comes before is there.
  const TemporaryFile file(bytes.substr(0, 1024 + 512 + 700));
  auto next = readers::tar()(file.path());
  CHECK(readers::text(next()->at("a")) == "one");
  CHECK_THROWS_AS(next(), InvalidArgument);
}

TEST_CASE("the checksum of an archive that gzip has compressed is compared", "[input][host]") {
  // The end of the archive, and so the checksum, lies in the first block or far behind the last member.
  const std::string archive = tar_archive({{"1.a", "one"}});
  const std::string bytes = GENERATE_COPY(archive, archive + std::string(1 << 20, '\0'));
  std::string gzipped = test::gzipped(bytes);
  CHECK(error_of(gzipped) == "none");
  gzipped[gzipped.size() - 8] ^= 1;
  CHECK(error_of(gzipped).find("the compressed data is damaged: incorrect data check") != std::string::npos);
}

namespace {

/// The next sample, or what is wrong with it; "": the end.
std::string next_of(const readers::Elements<std::map<std::string, Tensor>>& elements) {
  try {
    const auto parts = elements();
    if (!parts) return "";
    std::string text;
    for (const auto& [name, part] : *parts) text += name + '=' + readers::text(part) + ' ';
    return text;
  } catch (const readers::BadRecord& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("an archive's samples go on behind any of them", "[input][host]") {
  std::string damaged = tar_member("5.a", "six");
  damaged[0] ^= 1;
  const std::string bytes = tar_member("0.a", "one") + tar_member("0.b", "two") + tar_member("no_part", "x") +
                            tar_member("d/1.a", std::string(700, 'y')) + tar_member("2.a", "") +
                            tar_member("2.a", "again") + damaged + tar_member("3.a", "four") + damaged +
                            tar_end();
  const std::string archive = GENERATE_COPY(bytes, test::gzipped(bytes));
  const TemporaryFile file(archive);
  std::vector<std::string> all;
  std::vector<readers::Position> positions;
  const auto elements = readers::tar()(file.path());
  do {
    positions.push_back(elements.position());
    all.push_back(next_of(elements));
  } while (!all.back().empty());
  positions.push_back(elements.position());
  CHECK(all.size() > 5);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    INFO(i);
    const auto later = readers::tar()(file.path());
    later.seek(positions[i]);
    CHECK(later.position() == positions[i]);
    for (std::size_t k = i; k < all.size(); ++k) CHECK(next_of(later) == all[k]);
    CHECK(next_of(later).empty());
  }
  const auto later = readers::tar()(file.path());
  CHECK_THROWS_MATCHES(later.seek({512, 1, 1}), InvalidArgument,
                       says("byte 512", "Restore a state that was saved with these files"));
  CHECK_THROWS_MATCHES(readers::tar()(file.path()).seek({1}), InvalidArgument,
                       says("is not one where an element begins"));
}

#else

TEST_CASE("without libarchive a tar reader is refused with the package's name", "[input][host]") {
  CHECK_THROWS_MATCHES(readers::tar(), Unsupported,
                       says("readers::tar: lockstep was built without libarchive", "libarchive-dev"));
}

#endif

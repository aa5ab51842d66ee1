#include "input/formats/compressed/zstd_source.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using detail::ZstdSource;

#ifdef LOCKSTEP_HAS_ZSTD

#include "input/formats/compressed/decompressed.hpp"
#include "support/zstd_file.hpp"

using test::zstd_frame;

namespace {

std::unique_ptr<ZstdSource> open(std::unique_ptr<detail::ByteSource> compressed) {
  return std::make_unique<ZstdSource>(std::move(compressed), "test");
}

std::string decompressed(const std::string& bytes, std::size_t piece = 1000) {
  return test::decompressed_by(open, bytes, piece);
}

}  // namespace

TEST_CASE("zstd is decompressed, in pieces of any size", "[input][host]") {
  const std::size_t piece = GENERATE(1, 7, 4096, 1'000'000);
  const std::string original = test::numbers_text().substr(0, piece == 1 ? 5000 : std::string::npos);
  CHECK(decompressed(zstd_frame(original), piece) == original);
  CHECK(decompressed(zstd_frame(""), piece).empty());
  CHECK(decompressed("", piece).empty());
}

TEST_CASE("zstd frames one after the other are one, and skippable ones nothing", "[input][host]") {
  const std::string skipped = std::string("\x50\x2a\x4d\x18\x03\0\0\0", 8) + "abc";
  CHECK(decompressed(zstd_frame("one ") + skipped + zstd_frame("") + zstd_frame("two")) == "one two");
  const std::string text = test::numbers_text();
  CHECK(decompressed(zstd_frame(text) + zstd_frame(text)) == text + text);
}

TEST_CASE("zstd data that is cut short or damaged is a fault where it is", "[input][host]") {
  const std::string whole = zstd_frame("some text, and more text");
  test::check_cut_short([](const std::string& bytes) { return decompressed(bytes); }, whole, 1);
  std::string damaged = whole;
  damaged[damaged.size() - 8] ^= 1;
  CHECK(decompressed(damaged).find("the compressed data is damaged: ") != std::string::npos);
  CHECK(decompressed(whole + "more").find("the compressed data is damaged: ") != std::string::npos);
  CHECK(decompressed("text").find("fault at ") == 0);
}

TEST_CASE("how much can be left is bounded by what zstd can hold", "[input][host]") {
  const std::string zeros(5'000'000, '\0');
  const std::string bytes = zstd_frame(zeros);
  const test::TemporaryFile file(bytes);
  const auto source = open(test::file_source(file.path()));
  CHECK(source->max_left() >= zeros.size());
  CHECK(source->max_left() <= bytes.size() * (std::uint64_t{1} << 15) + (std::uint64_t{1} << 27));
  std::string all(zeros.size(), 'x');
  source->read(all.data(), all.size(), "all");
  CHECK(all == zeros);
  source->expect_end("all");
  CHECK(source->max_left() == 0);
  CHECK(source->part() == " of the decompressed data");
}

TEST_CASE("a zstd window above 128 MiB is refused", "[input][host]") {
  // A frame of one raw block of 3 bytes, whose header asks for a window of 2^28 bytes.
  const std::string frame(
      "\x28\xb5\x2f\xfd\x00\x90\x19\x00\x00"
      "abc",
      12);
  CHECK(decompressed(frame).find("the compressed data is damaged: Frame requires too much memory") !=
        std::string::npos);
  std::string allowed = frame;
  allowed[5] = '\x88';  // 2^27
  CHECK(decompressed(allowed) == "abc");
}

#else

TEST_CASE("without libzstd its absence is an error that names the package", "[input][host]") {
  CHECK_THROWS_MATCHES(ZstdSource(nullptr, "call"), Unsupported,
                       test::says("call of zstd: lockstep was built without libzstd", "libzstd-dev"));
}

#endif

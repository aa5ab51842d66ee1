#include "input/formats/compressed/inflate_source.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "input/formats/compressed/decompressed.hpp"
#include "support/zip_file.hpp"

using namespace lockstep;
using detail::DeflateForm;
using detail::FileFault;
using detail::InflateSource;
using test::gzipped;
using test::TemporaryFile;

namespace {

std::unique_ptr<InflateSource> open(std::unique_ptr<detail::ByteSource> compressed,
                                    DeflateForm form = DeflateForm::gzip) {
  return std::make_unique<InflateSource>(std::move(compressed), form);
}

std::string inflated(const std::string& bytes, DeflateForm form = DeflateForm::gzip,
                     std::size_t piece = 1000) {
  return test::decompressed_by([form](auto compressed) { return open(std::move(compressed), form); }, bytes,
                               piece);
}

}  // namespace

TEST_CASE("gzip and deflate are inflated, in pieces of any size", "[input][host]") {
  const std::size_t piece = GENERATE(1, 7, 4096, 1'000'000);
  const std::string original = test::numbers_text().substr(0, piece == 1 ? 5000 : std::string::npos);
  CHECK(inflated(gzipped(original), DeflateForm::gzip, piece) == original);
  CHECK(inflated(test::compressed(original, -15), DeflateForm::bare, piece) == original);
  CHECK(inflated(gzipped(""), DeflateForm::gzip, piece).empty());
}

TEST_CASE("gzip files one after the other are one", "[input][host]") {
  CHECK(inflated(gzipped("one ") + gzipped("") + gzipped("two")) == "one two");
  const std::string zeros(40'000, '\0');
  CHECK(inflated(gzipped("one ") + zeros + gzipped("two") + zeros) == "one two");
  CHECK(inflated(gzipped("one") + zeros + "more").find("incorrect header check") != std::string::npos);
  CHECK(inflated(zeros).find("fault at ") == 0);
}

TEST_CASE("compressed data that is cut short or damaged is a fault where it is", "[input][host]") {
  const std::string whole = gzipped("some text, and more text");
  test::check_cut_short([](const std::string& bytes) { return inflated(bytes); }, whole, 0);
  std::string damaged = whole;
  damaged[damaged.size() - 8] ^= 1;
  CHECK(inflated(damaged).find("the compressed data is damaged: incorrect data check") != std::string::npos);
  CHECK(inflated(whole + "more").find("the compressed data is damaged: incorrect header check") !=
        std::string::npos);
  CHECK(inflated("text").find("fault at ") == 0);
  CHECK(inflated(test::compressed("text", -15) + "more", DeflateForm::bare) ==
        "fault at 6: there is more after the compressed data");
}

TEST_CASE("how much can be left is bounded by what deflate can hold", "[input][host]") {
  const std::string zeros(5'000'000, '\0');
  const std::string bytes = gzipped(zeros);
  const TemporaryFile file(bytes);
  const auto source = open(test::file_source(file.path()));
  CHECK(source->max_left() >= zeros.size());
  CHECK(source->max_left() <= (bytes.size() + 100) * 1032);
  std::string part(4'999'999, '\0');
  source->read(part.data(), part.size(), "a part");
  CHECK(source->max_left() >= 1);
  CHECK(source->max_left() <= 100 * 1032);
  try {
    source->read(part.data(), 2, "a part");
    FAIL("there is one byte");
  } catch (const FileFault& fault) {
    CHECK(fault.position == 4'999'999);
    CHECK(fault.part == " of the decompressed data");
    CHECK(fault.reason == "a part has 2 bytes, but the file ends after 1");
  }
  CHECK(source->max_left() == 0);
}

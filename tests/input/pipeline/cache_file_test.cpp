#include "input/pipeline/cache_file.hpp"

#include <set>

#include <catch2/catch_test_macros.hpp>
#include <zlib.h>

#include "support/dtypes.hpp"
#include "support/input.hpp"
#include "support/npy_file.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using detail::CacheFileReader;
using detail::CacheFileWriter;
using detail::FileFault;
using detail::FlatElement;
using test::bytes_of;

namespace cache_file_test {
constexpr std::string_view kMagic = "lockstep cache 2";
using Texts = std::vector<std::string>;

std::string block(char kind, const std::string& content) {
  const auto crc =
      static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  return kind + bytes_of(std::uint64_t{content.size()}) + content + bytes_of(crc);
}
std::string texts_block(char kind, const Texts& texts) {
  std::string content = bytes_of(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) content += bytes_of(static_cast<std::uint32_t>(text.size())) + text;
  return block(kind, content);
}
std::string structure(const Texts& texts) { return texts_block('S', texts); }
std::string tensor_head(int dtype, const std::vector<std::int64_t>& extents) {
  std::string bytes{static_cast<char>(dtype), static_cast<char>(extents.size())};
  for (const std::int64_t extent : extents) bytes += bytes_of(extent);
  return bytes;
}
std::string element(const std::string& content, std::uint32_t num_leaves = 1) {
  return block('E', bytes_of(num_leaves) + content);
}
/// A file of these blocks, which says how many elements are in it.
std::string file_of(const std::string& blocks, std::uint64_t num_elements = 1) {
  return std::string(kMagic) + texts_block('P', {"call"}) + blocks + block('Z', bytes_of(num_elements));
}

const int kI64 = static_cast<int>(DType::i64), kU8 = static_cast<int>(DType::u8);

/// Why a file cannot be read to its end.
std::string fault_of(const std::string& bytes, std::size_t num_leaves = 1) {
  const test::TemporaryFile file(bytes);
  try {
    CacheFileReader reader(file.path());
    while (reader.next(num_leaves)) {
    }
  } catch (const FileFault& fault) {
    return std::to_string(fault.position) + ": " + fault.reason;
  }
  return "no fault";
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}
}  // namespace cache_file_test

using namespace cache_file_test;

TEST_CASE("what is written into a cache file is read from it: every dtype and shape",
          "[input][cache][host]") {
  const test::TemporaryDirectory directory;
  std::vector<FlatElement> elements;
  for (const DType dtype : test::kAllDTypes)
    elements.push_back(
        {Tensor::full({2, 3}, 1, dtype), Tensor::full({}, 0, dtype), Tensor::empty({0, 5}, dtype)});
  elements.push_back({Tensor::arange(std::int64_t{100'000}), Tensor::scalar(2.5), Tensor::zeros({1})});
  {
    CacheFileWriter writer(directory / "cache", {"one", "two"});
    for (const FlatElement& element : elements) writer.write(element, [] { return Texts{"1", "key"}; });
    writer.commit();
  }
  CHECK(directory.names() == std::set<std::string>{"cache"});
  CacheFileReader reader(directory / "cache");
  CHECK(reader.num_elements() == elements.size());
  CHECK(reader.structure() == Texts{"1", "key"});
  CHECK(reader.pipeline() == Texts{"one", "two"});
  for (const FlatElement& element : elements) {
    const auto read = reader.next(3);
    REQUIRE(read);
    for (std::size_t leaf = 0; leaf < 3; ++leaf) {
      const Tensor &a = element[leaf], &b = (*read)[leaf];
      CHECK(b.dtype() == a.dtype());
      REQUIRE(b.shape() == a.shape());
      CHECK(std::string_view(static_cast<const char*>(b.view().data), static_cast<std::size_t>(b.nbytes())) ==
            std::string_view(static_cast<const char*>(a.view().data), static_cast<std::size_t>(a.nbytes())));
    }
  }
  CHECK_FALSE(reader.next(3));
}

TEST_CASE("a cache file of this form is read", "[input][cache][host]") {
  const std::string good =
      file_of(structure({}) + element(tensor_head(kI64, {1}) + bytes_of(std::int64_t{7})));
  CHECK(fault_of(good) == "no fault");
  CHECK(fault_of(file_of("", 0)) == "no fault");
  const test::TemporaryFile file(file_of(structure({}) + element(tensor_head(12, {3}) + "\2\1" + '\0')));
  CacheFileReader booleans(file.path());
  CHECK(booleans.next(1)->at(0).to_vector<bool>() == std::vector<bool>{true, true, false});
}

TEST_CASE("a cache file that is cut short anywhere is refused", "[input][cache][host]") {
  const std::string good = file_of(structure({"1"}) + element(tensor_head(kU8, {2}) + "ab"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    INFO(size);
    CHECK(fault_of(good.substr(0, size)) != "no fault");
  }
  has(fault_of(good.substr(0, good.size() - 1)), "the file was cut short or changed");
  has(fault_of("short"), "0: it has 5 bytes, too few for a cache");
}

TEST_CASE("a cache file with a changed byte is refused wherever it is", "[input][cache][host]") {
  const std::string good = file_of(structure({"1"}) + element(tensor_head(kU8, {2}) + "ab"));
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] ^= 0x10;
    INFO(at);
    CHECK(fault_of(changed) != "no fault");
  }
  std::string changed = good;
  changed[good.find("ab")] = 'x';
  has(fault_of(changed),
      std::to_string(good.find("ab") + 2) + ": the bytes before do not have this checksum");
}

TEST_CASE("a cache file's tensors must match the dataset's", "[input][cache][host]") {
  const test::TemporaryFile file(file_of(structure({}) + element(tensor_head(kU8, {2}) + "ab")));
  const auto why = [&](const TensorSpec& spec) -> std::string {
    CacheFileReader reader(file.path());
    try {
      reader.next(1, std::span(&spec, 1));
      return "no fault";
    } catch (const FileFault& fault) {
      return fault.reason;
    }
  };
  CHECK(why(TensorSpec({std::nullopt}, DType::u8)) == "no fault");
  CHECK(why(TensorSpec({3}, DType::u8)) ==
        "tensor 0 of an element is [2] uint8, where the dataset's are [3] uint8");
  has(why(TensorSpec({2}, DType::f32)), "where the dataset's are [2] float32");
}

TEST_CASE("a cache file that is none, or lies, is refused", "[input][cache][host]") {
  const std::string texts = structure({}), one = element(tensor_head(kU8, {1}) + "a");
  has(fault_of(std::string(100, 'x')), "0: it does not begin as caches of this version do");
  has(fault_of(file_of(one)), ": expected the elements' structure");
  has(fault_of(std::string(kMagic) + texts + one + block('Z', bytes_of(std::uint64_t{1}))),
      "16: expected the dataset's calls");
  has(fault_of(file_of(texts + one, 2)), "an element has 9 bytes, but the file ends after 0");
  has(fault_of(file_of(texts + one + one, 1)), "there is more after the 1 elements");
  has(fault_of(file_of(texts + one), 2), "an element has 1 tensors, not 2");
  has(fault_of(file_of(texts + element("", 0xffffffff))), "an element has 4294967295 tensors, not 1");
  has(fault_of(file_of(block('S', bytes_of(std::uint32_t{0xffffffff})))), "more texts than bytes");
  has(fault_of(file_of(block('S', bytes_of(std::uint32_t{1}) + bytes_of(std::uint32_t{1000})))),
      "a text has 1000 bytes, but its block ends after 0");
  has(fault_of(file_of(texts + block('E', ""))),
      "the number of tensors has 4 bytes, but its block ends after 0");
  has(fault_of(file_of(texts + 'E' + bytes_of(~std::uint64_t{0}))),
      "an element has 18446744073709551615 bytes, but the file ends after 0");
  const auto with_tensor = [&](const std::string& content) {
    return fault_of(file_of(texts + element(content)));
  };
  has(with_tensor(tensor_head(15, {})), "there is no dtype 15");
  has(with_tensor(tensor_head(kU8, {-1})), "an extent is negative");
  has(with_tensor(tensor_head(kU8, {1, 1, 1, 1, 1, 1, 1, 1, 1}) + "a"), "rank 9 exceeds the largest, 8");
  has(with_tensor(tensor_head(kI64, {INT64_MAX, INT64_MAX}) + "12345678"), "more elements than the ");
  has(with_tensor(tensor_head(kU8, {3}) + "a"), "more elements than the 1 that its block has bytes for");
  const std::string two = tensor_head(kU8, {2});
  has(fault_of(file_of(texts + element(two + two + "abc", 2)), 2),
      "an element's tensors have 4 bytes, but its block ends after 3");
  has(with_tensor(tensor_head(kU8, {1}) + "ab"), "1 bytes of a block are not used");
}

#include "input/formats/readers/byte_index.hpp"

#include <algorithm>
#include <string>

#include <catch2/catch_test_macros.hpp>

using lockstep::detail::ByteIndex;

TEST_CASE("the first of three bytes is found from every place to every end", "[input][host]") {
  std::string text;
  for (std::size_t i = 0; i < 300; ++i) text += i % 37 == 36 || i == 64 || i == 65 ? ",\n\""[i % 3] : 'x';
  const std::string padded = text + std::string(ByteIndex::kBlockBytes, ',');
  ByteIndex index({',', '\n', '"'});
  for (std::size_t end = 0; end <= text.size(); end += 7) {
    for (const std::size_t step : {1, 5, 70}) {
      index.reset();
      for (std::size_t from = 0; from <= end; from += step) {
        const std::size_t expected = std::min(text.substr(0, end).find_first_of(",\n\"", from), end);
        const char* const found = index.find(padded.data() + from, padded.data() + end);
        CHECK(static_cast<std::size_t>(found - padded.data()) == expected);
      }
    }
  }
  std::string other(128, 'x');
  index.reset();
  CHECK(index.find(other.data(), other.data() + 64) == other.data() + 64);
  other[3] = ',';
  index.reset();
  CHECK(index.find(other.data(), other.data() + 64) == other.data() + 3);
}

TEST_CASE("bytes are found where every byte is one of them, and far apart", "[input][host]") {
  constexpr std::size_t kSize = 10'000;
  const auto count = [](const std::string& text) {
    const std::string padded = text + std::string(ByteIndex::kBlockBytes, '\n');
    ByteIndex index({'\n', '\n', '\n'});
    const char* const end = padded.data() + text.size();
    std::size_t found = 0;
    for (const char* next = padded.data(); (next = index.find(next, end)) != end; ++next) ++found;
    return found;
  };
  CHECK(count(std::string(kSize, '\n')) == kSize);
  CHECK(count(std::string(kSize, 'x')) == 0);
  CHECK(count(std::string(kSize, 'x') + '\n') == 1);
}

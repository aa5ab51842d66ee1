#include "input/formats/readers/byte_finder.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>

using lockstep::detail::ByteFinder;

TEST_CASE("the first of four bytes is found from every place to every end", "[input][host]") {
  std::string text;
  for (std::size_t i = 0; i < 300; ++i) text += i % 37 == 36 || i == 64 || i == 65 ? ",\n\r\""[i % 4] : 'x';
  const std::string padded = text + std::string(ByteFinder::kBlockBytes, ',');
  ByteFinder finder({',', '\n', '\r', '"'});
  for (std::size_t end = 0; end <= text.size(); end += 7) {
    for (std::size_t from = 0; from <= end; ++from) {
      const std::size_t expected = std::min(text.substr(0, end).find_first_of(",\n\r\"", from), end);
      const char* const found = finder.find(padded.data() + from, padded.data() + end);
      CHECK(static_cast<std::size_t>(found - padded.data()) == expected);
    }
  }
  std::string other(128, 'x');
  CHECK(finder.find(other.data(), other.data() + 64) == other.data() + 64);
  other[3] = ',';
  finder.reset();
  CHECK(finder.find(other.data(), other.data() + 64) == other.data() + 3);
}

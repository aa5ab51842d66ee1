#include "detail/in_quotes.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>

using lockstep::detail::in_quotes;

TEST_CASE("texts from outside are made fit for messages", "[detail][host]") {
  CHECK(in_quotes("w\nx\x1b") == "'w?x?'");
  CHECK(in_quotes("é€😀") == "'é€😀'");
  CHECK(in_quotes("\xff \x80 \xc3z") == "'? ? ?z'");
  CHECK(in_quotes(std::string(100, 'x')) == "'" + std::string(100, 'x') + "'");
  CHECK(in_quotes(std::string(101, 'x')) == "'" + std::string(100, 'x') + "…'");
  CHECK(in_quotes(std::string(99, 'x') + "é!") == "'" + std::string(99, 'x') + "…'");
}

#include "host/processes/piece_stream.hpp"

#include <cstdint>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

using lockstep::host::PieceStream;

TEST_CASE("pieces are laid end to end, from multiples of 16 bytes on", "[host]") {
  PieceStream stream;
  CHECK(stream.size_bytes() == 0);
  for (const std::int64_t size : {0, 5, 16, 0, 40}) stream.add(size);
  CHECK(stream.size_bytes() == 72);

  using Part = std::tuple<std::size_t, std::int64_t, std::int64_t, std::int64_t>;
  const auto parts = [&](std::int64_t begin, std::int64_t end) {
    std::vector<Part> found;
    stream.for_each_part(begin, end,
                         [&](std::size_t piece, std::int64_t from, std::int64_t to, std::int64_t at) {
                           found.emplace_back(piece, from, to, at);
                         });
    return found;
  };
  CHECK(parts(0, 72) == std::vector<Part>{{1, 0, 5, 0}, {2, 0, 16, 16}, {4, 0, 40, 32}});
  CHECK(parts(0, 16) == std::vector<Part>{{1, 0, 5, 0}});
  CHECK(parts(16, 48) == std::vector<Part>{{2, 0, 16, 0}, {4, 0, 16, 16}});
  CHECK(parts(64, 72) == std::vector<Part>{{4, 32, 40, 0}});
  CHECK(parts(72, 72).empty());
  stream.clear();
  CHECK(parts(0, 72).empty());
}

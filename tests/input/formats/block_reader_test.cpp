#include "input/formats/block_reader.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/npy_file.hpp"

using namespace lockstep;
using detail::BlockReader;
using test::TemporaryFile;

namespace block_reader_test {
BlockReader open(const TemporaryFile& file) {
  auto input = std::make_shared<const detail::InputFile>(file.path(), "test");
  return BlockReader(std::make_unique<detail::FileSource>(input));
}
}  // namespace block_reader_test

TEST_CASE("blocks give all bytes of a source with their positions", "[input][host]") {
  const std::size_t size = GENERATE(0, 1, 131'071, 131'072, 131'073, 500'000);
  const std::size_t kept = GENERATE(0, 1, 100);  // bytes that are not taken at first
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i % 251);
  const TemporaryFile file(bytes);
  BlockReader block = block_reader_test::open(file);
  std::string all;
  while (block.fill()) {
    CHECK(block.position() == all.size());
    const std::size_t taken = block.rest().size() > kept ? block.rest().size() - kept : 0;
    all += block.rest().substr(0, taken);
    block.take(taken);
  }
  all += block.rest();
  CHECK(all == bytes);
  CHECK_FALSE(block.fill());
}

TEST_CASE("a record that is larger than a block makes the buffer grow, and no larger than the source",
          "[input][host]") {
  const std::string bytes(1'000'003, 'x');
  const TemporaryFile file(bytes);
  BlockReader block = block_reader_test::open(file);
  while (block.fill()) CHECK(block.position() == 0);
  CHECK(block.rest() == bytes);
}

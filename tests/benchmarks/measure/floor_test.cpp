#include "measure/floor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using lockstep::bench::floor_pass;
using lockstep::bench::floor_reduction;
using lockstep::bench::FloorLoop;
using lockstep::bench::in_rounds;

namespace {

using Bytes = std::vector<std::byte>;

// Buffer r: bytes that differ from rank to rank.
std::vector<Bytes> make_buffers(int num_ranks, std::size_t size) {
  std::vector<Bytes> buffers(static_cast<std::size_t>(num_ranks), Bytes(size));
  for (std::size_t r = 0; r < buffers.size(); ++r)
    for (std::size_t i = 0; i < size; ++i) buffers[r][i] = static_cast<std::byte>((i * 7 + r * 13) & 0xff);
  return buffers;
}

std::vector<std::byte*> pointers(std::vector<Bytes>& buffers) {
  std::vector<std::byte*> result;
  for (Bytes& buffer : buffers) result.push_back(buffer.data());
  return result;
}

}  // namespace

TEST_CASE("the floor reads every input and writes every output, of its range only", "[benchmarks]") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 7, 16, 17, 40);
  const auto loop = GENERATE(FloorLoop::interleaved, FloorLoop::blocked);
  constexpr std::size_t kSize = 9001;
  constexpr std::int64_t kBegin = 3, kEnd = 8998;
  auto inputs = make_buffers(num_ranks, kSize);
  std::vector<Bytes> outputs(inputs.size(), Bytes(kSize, std::byte{0x5a}));

  Bytes expected(kSize);
  for (const Bytes& input : inputs)
    for (std::size_t i = 0; i < kSize; ++i) expected[i] |= input[i];
  for (std::size_t i = 0; i < kSize; ++i)
    if (i < kBegin || i >= kEnd) expected[i] = std::byte{0x5a};

  floor_pass(loop, pointers(inputs), pointers(outputs), kBegin, kEnd);
  for (const Bytes& output : outputs) CHECK((output == expected));
}

TEST_CASE("the floor goes from one buffer to many, and from many to one or some", "[benchmarks]") {
  const auto [num_inputs, num_outputs] =
      GENERATE(table<int, int>({{1, 3}, {3, 1}, {1, 16}, {16, 1}, {1, 20}, {20, 1}, {3, 2}, {2, 3}, {2, 0}}));
  const auto loop = GENERATE(FloorLoop::interleaved, FloorLoop::blocked);
  constexpr std::size_t kSize = 5003;
  auto inputs = make_buffers(num_inputs, kSize);
  Bytes expected(kSize);
  for (const Bytes& input : inputs)
    for (std::size_t i = 0; i < kSize; ++i) expected[i] |= input[i];
  std::vector<Bytes> outputs(static_cast<std::size_t>(num_outputs), Bytes(kSize));
  floor_pass(loop, pointers(inputs), pointers(outputs), 0, kSize);
  for (const Bytes& output : outputs) CHECK((output == expected));
  CHECK((inputs == make_buffers(num_inputs, kSize)));
}

TEST_CASE("the floor in place leaves equal buffers as they are", "[benchmarks]") {
  const auto loop = GENERATE(FloorLoop::interleaved, FloorLoop::blocked);
  std::vector<Bytes> buffers(4, make_buffers(1, 1000).front());
  const auto before = buffers;
  floor_pass(loop, pointers(buffers), pointers(buffers), 0, 1000);
  CHECK((buffers == before));
}

TEST_CASE("the floor of a reduction reads all of its input and writes all of its output", "[benchmarks]") {
  const std::size_t size = GENERATE(0, 1, 7, 8, 127, 128, 129, 1000, 5003);
  const std::size_t output_size = GENERATE(0, 3, 8, 21);
  for (std::size_t bit_at = 0; bit_at < size; ++bit_at) {  // each byte of the input counts
    Bytes input(size), output(output_size, std::byte{0x5a});
    input[bit_at] = std::byte{0x81};
    floor_reduction(input, output);
    Bytes expected(output_size);
    for (std::size_t i = bit_at % 8; i < output_size; i += 8) expected[i] = std::byte{0x81};
    REQUIRE((output == expected));
  }
}

TEST_CASE("iterations are divided into rounds without a gap, and are one round without a floor",
          "[benchmarks]") {
  const int iterations = GENERATE(1, 9, 10, 25, 240);
  std::vector<std::pair<int, int>> rounds;
  const auto note = [&](int first, int end) { rounds.emplace_back(first, end); };
  in_rounds(iterations, false, note);
  CHECK(rounds == std::vector{std::pair(0, iterations)});
  rounds.clear();
  in_rounds(iterations, true, note);
  CHECK(rounds.size() == static_cast<std::size_t>(std::min(iterations, 10)));
  CHECK(rounds.front().first == 0);
  CHECK(rounds.back().second == iterations);
  for (std::size_t i = 1; i < rounds.size(); ++i) CHECK(rounds[i].first == rounds[i - 1].second);
}

#include "host/host_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "support/matchers.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using test::on_replicas;
using test::says;

TEST_CASE("abort releases the ranks that wait in a host collective, and fails later ones", "[host]") {
  const auto communicator = host::make_host_communicator(3);
  std::vector<float> values(3, 1);
  std::vector<std::string> messages(3);
  on_replicas(3, [&](int rank) {
    if (rank == 2) return communicator->abort();
    const backend::Segment segment{&values[rank], &values[rank], 1, DType::f32};
    const backend::RankCall call{rank, {}, {&segment, 1}};
    try {
      communicator->all_reduce({&call, 1}, ReduceOp::sum);
    } catch (const CollectiveAborted& error) {
      messages[rank] = error.what();
    }
  });
  REQUIRE(messages[0] ==
          "all_reduce on rank 0 of 3 host ranks: the communicator was aborted. Make a new one.");
  REQUIRE(messages[1] ==
          "all_reduce on rank 1 of 3 host ranks: the communicator was aborted. Make a new one.");
  REQUIRE(values == std::vector<float>(3, 1));

  std::vector<backend::Segment> segments;
  std::vector<backend::RankCall> calls;
  for (float& value : values) segments.push_back({&value, &value, 1, DType::f32});
  for (int rank = 0; rank < 3; ++rank) calls.push_back({rank, {}, {&segments[rank], 1}});
  REQUIRE_THROWS_MATCHES(communicator->broadcast(calls, 0), CollectiveAborted, says("broadcast", "aborted"));
  REQUIRE_THROWS_MATCHES(communicator->transfer("gather", calls, {}), CollectiveAborted,
                         says("gather on rank 0 of 3 host ranks", "aborted"));
  REQUIRE(values == std::vector<float>(3, 1));
}

TEST_CASE("slices and chunks cover every byte once, and are cut at cache lines of a piece", "[host]") {
  constexpr std::int64_t kChunk = 256 << 10;
  const std::vector<std::int64_t> pieces =
      GENERATE(std::vector<std::int64_t>{0, 1, 64, 65, 0, 4096, 100'003, 3},
               std::vector<std::int64_t>{5, 3 * kChunk + 65, 7, 2 * kChunk, kChunk - 64});
  const std::int64_t total = std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0});
  const auto bytes_of = [&](std::size_t piece) { return pieces[piece]; };
  for (const int n : {1, 2, 3, 4, 7, 64}) {
    std::vector<std::vector<int>> seen;  // by line
    for (const std::int64_t bytes : pieces) seen.emplace_back((bytes + 63) / 64);
    std::vector<std::int64_t> done(n);
    std::int64_t largest_chunk = 0;
    bool aligned = true;
    const host::Slices slices(pieces.size(), bytes_of, n);
    for (int rank = 0; rank < n; ++rank) {
      for (std::int64_t chunk = 0; chunk < slices.chunks_per_slice(); ++chunk) {
        std::int64_t in_chunk = 0;
        slices.for_each_part(pieces.size(), bytes_of, rank, chunk,
                             [&](std::size_t piece, std::int64_t begin, std::int64_t end) {
                               aligned &=
                                   begin % 64 == 0 && (end % 64 == 0 || end == pieces[piece]) && begin < end;
                               for (std::int64_t i = begin; i < end; i += 64) ++seen[piece][i / 64];
                               in_chunk += end - begin;
                             });
        largest_chunk = std::max(largest_chunk, in_chunk);
        done[rank] += in_chunk;
      }
    }
    CAPTURE(n, total);
    REQUIRE(aligned);
    for (const auto& piece : seen) REQUIRE(std::ranges::all_of(piece, [](int times) { return times == 1; }));
    for (const std::int64_t bytes : done) REQUIRE(bytes <= total / n + 64 * 9);
    REQUIRE(std::accumulate(done.begin(), done.end(), std::int64_t{0}) == total);
    REQUIRE(largest_chunk <= kChunk);
    REQUIRE(slices.chunks_per_slice() <= total / n / kChunk + 1);
  }
}

TEST_CASE("host collectives of several chunks, more threads than cores", "[host]") {
  constexpr int n = 5;
  const std::vector<std::int64_t> counts = {250'001, 3, 300'007};  // of 4 bytes: several chunks in each slice
  const auto communicator = host::make_host_communicator(n);
  const auto value = [](int rank, std::size_t s, std::int64_t i) {
    return static_cast<std::int32_t>((rank + 1) * (i % 1009) + static_cast<std::int64_t>(s));
  };
  const auto sum = [&](std::size_t s, std::int64_t i) {
    std::int32_t result = 0;
    for (int rank = 0; rank < n; ++rank) result += value(rank, s, i);
    return result;
  };
  std::vector<std::string> wrong(n);
  on_replicas(n, [&](int rank) {
    std::vector<std::vector<std::int32_t>> one(counts.size()), all(counts.size()), received(counts.size());
    for (std::size_t s = 0; s < counts.size(); ++s) {
      for (std::int64_t i = 0; i < n * counts[s]; ++i) all[s].push_back(value(rank, s, i));
      one[s].assign(all[s].begin(), all[s].begin() + counts[s]);
      received[s].resize(n * counts[s]);
    }
    std::vector<backend::Segment> batch;
    const auto call = [&](const auto& send) {
      batch.clear();
      for (std::size_t s = 0; s < counts.size(); ++s) {
        std::ranges::fill(received[s], -1);
        batch.push_back({send[s].data(), received[s].data(), counts[s], DType::i32});
      }
      return backend::RankCall{rank, {}, batch};
    };
    const auto expect = [&](const char* what, int num_blocks, const auto& expected) {
      for (std::size_t s = 0; s < counts.size(); ++s) {
        for (std::int64_t i = 0; i < n * counts[s]; ++i) {
          const std::int32_t right = i < num_blocks * counts[s] ? expected(s, i) : -1;
          if (received[s][i] != right && wrong[rank].empty())
            wrong[rank] =
                std::string(what) + " segment " + std::to_string(s) + " element " + std::to_string(i);
        }
      }
    };
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto from = [&](const auto& send) { return std::array{call(send)}; };
      communicator->all_reduce(from(one), ReduceOp::sum);
      expect("all_reduce", 1, sum);
      communicator->reduce(from(one), ReduceOp::sum, 3);
      expect("reduce", rank == 3 ? 1 : 0, sum);
      communicator->broadcast(from(one), 2);
      expect("broadcast", 1, [&](std::size_t s, std::int64_t i) { return value(2, s, i); });
      communicator->all_gather(from(one));
      expect("all_gather", n, [&](std::size_t s, std::int64_t i) {
        return value(static_cast<int>(i / counts[s]), s, i % counts[s]);
      });
      communicator->reduce_scatter(from(all), ReduceOp::sum);
      expect("reduce_scatter", 1,
             [&](std::size_t s, std::int64_t i) { return sum(s, rank * counts[s] + i); });
    }
  });
  REQUIRE(wrong == std::vector<std::string>(n));
}

TEST_CASE("stream_copy copies exactly the bytes it is told, at any address", "[host]") {
  for (const std::size_t offset : {0, 1, 4, 16, 63}) {
    for (const std::size_t size : {0, 1, 15, 63, 64, 65, 127, 128, 200, 4096}) {
      std::vector<unsigned char> source(size + 64), destination(size + 192, 7), expected = destination;
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 31 + 1);
      std::copy_n(source.begin() + 3, size, expected.begin() + static_cast<std::ptrdiff_t>(offset));
      host::stream_copy(destination.data() + offset, source.data() + 3, size);
      host::end_streaming();
      CAPTURE(offset, size);
      REQUIRE(destination == expected);
    }
  }
}

#include "host/host_communicator.hpp"

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "host/collectives/slice_progress.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using test::on_replicas;

TEST_CASE("a host collective is done when a rank's thread has not come, which then changes nothing",
          "[host]") {
  const std::size_t count = GENERATE(1u, 5000u, 500'000u);  // one slice, a chunk in each, several
  const auto communicator = host::make_host_communicator(3);
  std::vector<std::vector<float>> values;
  std::vector<backend::Segment> segments;
  std::vector<backend::RankCall> calls;
  for (int rank = 0; rank < 3; ++rank) values.emplace_back(count, static_cast<float>(rank + 1));
  for (std::vector<float>& own : values)
    segments.push_back({own.data(), own.data(), static_cast<std::int64_t>(count), DType::f32});
  for (int rank = 0; rank < 3; ++rank) calls.push_back({rank, {}, {&segments[rank], 1}});
  const auto call = [&](std::size_t first, std::size_t num) {
    communicator->all_reduce({"all_reduce(sum)", calls, std::span(calls).subspan(first, num)});
  };
  float sum = 6;
  for (int round = 0; round < 3; ++round, sum *= 3) {
    call(1, 1);
    REQUIRE(values == std::vector(3, std::vector<float>(count, sum)));
    call(2, 1);
    call(0, 1);
    REQUIRE(values == std::vector(3, std::vector<float>(count, sum)));
  }
  call(0, 3);  // and by one thread for all
  REQUIRE(values == std::vector(3, std::vector<float>(count, sum)));
}

TEST_CASE("chunks of a slice are taken once, and counted for one collective", "[host]") {
  host::SliceProgress progress;
  for (const std::uint64_t collective : {1u, 2u, 5u}) {
    CHECK_FALSE(progress.is_done(collective, 2));
    CHECK(progress.take(collective, 2) == 0);
    CHECK(progress.take(collective, 2) == 1);
    CHECK(progress.take(collective, 2) == -1);
    progress.add_done(collective, 2);
    CHECK_FALSE(progress.is_done(collective, 2));
    progress.add_done(collective, 2);
    CHECK(progress.is_done(collective, 2));
  }
  CHECK(progress.take(6, 1) == 0);
  CHECK(progress.take(6, 1) == -1);
  progress.add_done(6, 1);
  CHECK(progress.is_done(6, 1));
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
  // The ranks' threads meet before each collective, as the core has them do. One that comes late still reads
  // what the others brought when these bring the next.
  std::barrier<> meeting(n);
  std::array<std::vector<backend::RankCall>, 2> brought{std::vector<backend::RankCall>(n),
                                                        std::vector<backend::RankCall>(n)};
  std::array<std::vector<std::vector<backend::Segment>>, 2> batches{
      std::vector<std::vector<backend::Segment>>(n), std::vector<std::vector<backend::Segment>>(n)};
  on_replicas(n, [&](int rank) {
    std::vector<std::vector<std::int32_t>> one(counts.size()), all(counts.size()), received(counts.size());
    for (std::size_t s = 0; s < counts.size(); ++s) {
      for (std::int64_t i = 0; i < n * counts[s]; ++i) all[s].push_back(value(rank, s, i));
      one[s].assign(all[s].begin(), all[s].begin() + counts[s]);
      received[s].resize(n * counts[s]);
    }
    std::size_t step = 0;
    const auto meet = [&](const auto& send, int root = 0) {
      std::vector<backend::RankCall>& calls = brought[++step % 2];
      std::vector<backend::Segment>& batch = batches[step % 2][rank];
      batch.clear();
      for (std::size_t s = 0; s < counts.size(); ++s) {
        std::ranges::fill(received[s], -1);
        batch.push_back({send[s].data(), received[s].data(), counts[s], DType::i32});
      }
      calls[rank] = {rank, {}, batch};
      meeting.arrive_and_wait();
      return backend::GroupCall{
          .operation = "", .calls = calls, .own = {&calls[rank], 1}, .root = root, .transfers = {}};
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
      communicator->all_reduce(meet(one));
      expect("all_reduce", 1, sum);
      communicator->reduce(meet(one, 3));
      expect("reduce", rank == 3 ? 1 : 0, sum);
      communicator->broadcast(meet(one, 2));
      expect("broadcast", 1, [&](std::size_t s, std::int64_t i) { return value(2, s, i); });
      communicator->all_gather(meet(one));
      expect("all_gather", n, [&](std::size_t s, std::int64_t i) {
        return value(static_cast<int>(i / counts[s]), s, i % counts[s]);
      });
      communicator->reduce_scatter(meet(all));
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

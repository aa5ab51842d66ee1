#include "host/host_communicator.hpp"

#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

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
  REQUIRE(values == std::vector<float>(3, 1));
}

TEST_CASE("slices cover every byte once, and are cut at cache lines of a piece", "[host]") {
  const std::vector<std::int64_t> pieces = {0, 1, 64, 65, 0, 4096, 100'003, 3};
  for (const int n : {1, 2, 3, 4, 7, 64}) {
    std::vector<std::vector<int>> seen;
    for (const std::int64_t bytes : pieces) seen.emplace_back(bytes);
    std::vector<std::int64_t> done(n);
    bool aligned = true;
    for (int rank = 0; rank < n; ++rank) {
      host::for_each_part(
          pieces.size(), [&](std::size_t piece) { return pieces[piece]; }, rank, n,
          [&](std::size_t piece, std::int64_t begin, std::int64_t end) {
            aligned &= begin % 64 == 0 && (end % 64 == 0 || end == pieces[piece]) && begin < end;
            for (std::int64_t i = begin; i < end; ++i) ++seen[piece][i];
            done[rank] += end - begin;
          });
    }
    CAPTURE(n);
    REQUIRE(aligned);
    for (const auto& piece : seen) REQUIRE(piece == std::vector<int>(piece.size(), 1));
    for (const std::int64_t bytes : done) REQUIRE(bytes <= 104'232 / n + 64 * 9);
  }
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

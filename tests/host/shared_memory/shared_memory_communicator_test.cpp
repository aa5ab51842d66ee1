#include "host/shared_memory/shared_memory_communicator.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <lockstep/error.hpp>

#include "detail/sanitizers.hpp"
#include "host/host_communicator.hpp"
#include "support/dtypes.hpp"
#include "support/process_team.hpp"
#include "support/replicas.hpp"
#include "support/socket_group.hpp"

using namespace lockstep;
using backend::CommunicatorBackend;
using backend::GroupCall;
using backend::RankCall;
using backend::Segment;
using Catch::Matchers::ContainsSubstring;
using test::SocketGroup;
using test::SocketStar;

namespace {

enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, transfer };

struct Call {
  Kind kind = Kind::all_reduce;
  ReduceOp op = ReduceOp::sum;
  std::vector<DType> dtypes{};
  std::vector<std::int64_t> counts{};
  int root = 0;
  bool in_place = false;
  std::size_t misaligned_bytes = 0;
};

std::int64_t bytes(const Call& call, std::size_t s) {
  return call.counts[s] * static_cast<std::int64_t>(size_of(call.dtypes[s]));
}
// Ranks of an all_gather send different numbers.
std::int64_t sent_count(const Call& call, std::size_t s, int rank) {
  return call.kind == Kind::all_gather ? call.counts[s] * (rank % 3) + rank % 2 : call.counts[s];
}

// One rank's memory for a call, the same on whichever process it is made.
struct Memory {
  std::vector<std::vector<std::byte>> sent, received;

  Memory(const Call& call, int rank, int num_ranks) {
    std::mt19937 random(static_cast<unsigned>(rank));
    for (std::size_t s = 0; s < call.counts.size(); ++s) {
      const bool wide = call.kind == Kind::reduce_scatter || call.kind == Kind::transfer;
      const std::int64_t num_sent = sent_count(call, s, rank) * (wide ? num_ranks : 1);
      std::int64_t num_received = call.counts[s] * (call.kind == Kind::transfer ? num_ranks : 1);
      if (call.kind == Kind::all_gather) {
        num_received = 0;
        for (int other = 0; other < num_ranks; ++other) num_received += sent_count(call, s, other);
      }
      const auto size = static_cast<std::int64_t>(size_of(call.dtypes[s]));
      sent.emplace_back(num_sent * size + 16);
      received.emplace_back(num_received * size + 16, std::byte{99});
      dispatch(call.dtypes[s], [&]<class T>() {
        std::byte* to = sent.back().data() + call.misaligned_bytes;
        for (std::int64_t i = 0; i < num_sent; ++i, to += sizeof(T)) {
          const auto value = static_cast<T>(static_cast<float>(random() % 2001) / 8 - 100);
          std::memcpy(to, &value, sizeof(T));
        }
      });
    }
  }

  std::vector<Segment> segments(const Call& call, int rank) {
    std::vector<Segment> batch;
    for (std::size_t s = 0; s < call.counts.size(); ++s) {
      std::byte* const send = sent[s].data() + call.misaligned_bytes;
      std::byte* const receive = received[s].data() + call.misaligned_bytes;
      batch.push_back({send, call.in_place ? send : receive, sent_count(call, s, rank), call.dtypes[s]});
    }
    return batch;
  }
};

// Everyone sends everyone, and itself, a block; of other sizes between each two.
std::vector<backend::Transfer> transfers_of(const Call& call, int num_ranks) {
  std::vector<backend::Transfer> transfers;
  for (std::size_t s = 0; s < call.counts.size(); ++s)
    for (int from = 0; from < num_ranks; ++from)
      for (int to = 0; to < num_ranks; ++to) {
        const std::int64_t size = bytes(call, s) - (from + 2 * to) % 3;
        if (size > 0) transfers.push_back({s, from, to, to * bytes(call, s), from * bytes(call, s), size});
      }
  return transfers;
}

void make(CommunicatorBackend& communicator, const Call& call, const std::vector<RankCall>& calls,
          std::span<const RankCall> own, const std::vector<backend::Transfer>& transfers) {
  const GroupCall group{.operation = "all_reduce(sum)",
                        .calls = calls,
                        .own = own,
                        .op = call.op,
                        .root = call.root,
                        .transfers = transfers};
  switch (call.kind) {
    case Kind::all_reduce: return communicator.all_reduce(group);
    case Kind::reduce: return communicator.reduce(group);
    case Kind::broadcast: return communicator.broadcast(group);
    case Kind::all_gather: return communicator.all_gather(group);
    case Kind::reduce_scatter: return communicator.reduce_scatter(group);
    case Kind::transfer: return communicator.transfer(group);
  }
}

// The calls that are tested, from the least to what needs several chunks.
std::vector<Call> calls_to_make(int num_ranks) {
  std::vector<Call> calls;
  const std::int64_t chunk = 32768;  // elements of 4 bytes in about a chunk
  const std::vector<std::vector<std::int64_t>> batches = {
      {1}, {13}, {1, 0, 7}, {2048}, {chunk - 1}, {chunk}, {chunk + 1}, {100'003}, {5, 0, 77'777, 1}};
  for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::broadcast, Kind::all_gather,
                          Kind::reduce_scatter, Kind::transfer}) {
    for (const auto& counts : batches) {
      const std::vector<DType> floats(counts.size(), DType::f32);
      calls.push_back({.kind = kind, .dtypes = floats, .counts = counts, .root = num_ranks - 1});
    }
    calls.push_back(
        {.kind = kind, .dtypes = std::vector(200, DType::f16), .counts = std::vector<std::int64_t>(200, 3)});
    calls.push_back({.kind = kind,
                     .dtypes = {DType::u8, DType::f64, DType::f32},
                     .counts = {4099, 501, 70'001},
                     .root = 0,
                     .misaligned_bytes = 3});
    if (kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast)
      for (const std::int64_t count : {9, 100'003})
        calls.push_back({.kind = kind, .dtypes = {DType::f32}, .counts = {count}, .in_place = true});
    for (const DType dtype : test::kAllDTypes) {
      const bool reduces = kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
      for (const ReduceOp op :
           {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
        if (reduces ? dtype == DType::boolean || (op == ReduceOp::mean && !is_floating(dtype))
                    : op != ReduceOp::sum)
          continue;
        calls.push_back({.kind = kind, .op = op, .dtypes = {dtype, dtype}, .counts = {37, 9001}});
      }
    }
  }
  return calls;
}

// The threads of a process's ranks, one for each or one for all, which meet before each call as the core has
// them do.
void make_calls(CommunicatorBackend& communicator, const backend::ProcessRanks& ranks, bool one_thread,
                const std::vector<Call>& calls_made) {
  const int n = ranks.total(), begin = ranks.own_begin(), num_own = ranks.own_end() - begin;
  host::HostCommunicator reference(n);
  for (std::size_t c = 0; c < calls_made.size(); ++c) {
    const Call& call = calls_made[c];
    std::vector<Memory> memory, expected;
    std::vector<std::vector<Segment>> batches, expected_batches;
    for (int rank = 0; rank < n; ++rank) {
      memory.emplace_back(call, rank, n);
      expected.emplace_back(call, rank, n);
    }
    std::vector<RankCall> calls, expected_calls;
    for (int rank = 0; rank < n; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      batches.push_back(memory[i].segments(call, rank));
      if (rank < begin || rank >= begin + num_own)  // another process's: its memory is unknown
        for (Segment& segment : batches.back()) segment.send = segment.receive = nullptr;
      expected_batches.push_back(expected[i].segments(call, rank));
    }
    for (int rank = 0; rank < n; ++rank) {
      calls.push_back({rank, {}, batches[static_cast<std::size_t>(rank)]});
      expected_calls.push_back({rank, {}, expected_batches[static_cast<std::size_t>(rank)]});
    }
    const auto transfers = transfers_of(call, n);
    make(reference, call, expected_calls, expected_calls, transfers);
    const std::span own =
        std::span(calls).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(num_own));
    if (one_thread)
      make(communicator, call, calls, own, transfers);
    else
      test::on_replicas(num_own, [&](int i) {
        make(communicator, call, calls, own.subspan(static_cast<std::size_t>(i), 1), transfers);
      });
    for (int rank = begin; rank < begin + num_own; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      if (memory[i].received != expected[i].received || memory[i].sent != expected[i].sent)
        throw Error("call " + std::to_string(c) + ": rank " + std::to_string(rank) + " has other bits");
    }
  }
}

struct Shape {
  int num_processes, ranks_of_each;
};
backend::ProcessRanks ranks_of(const Shape& shape, backend::ProcessGroup& group) {
  return {&group, std::vector<int>(static_cast<std::size_t>(shape.num_processes), shape.ranks_of_each)};
}
std::vector<std::string> fine(int num_processes) {
  return std::vector<std::string>(static_cast<std::size_t>(num_processes));
}

// It sees nothing of what processes do to each other, and takes minutes for it.
void skip_under_thread_sanitizer() {
#if LOCKSTEP_THREAD_SANITIZER
  SKIP("threads that stand for processes are what it watches");
#endif
}

// Floats that all ranks sum, of one process; the sum is left in place.
struct Sum {
  std::vector<float> values;
  std::vector<std::vector<Segment>> batches;
  std::vector<RankCall> calls;

  Sum(const backend::ProcessRanks& ranks, std::size_t count) : values(count, 1) {
    for (int rank = 0; rank < ranks.total(); ++rank) {
      float* const own = rank == ranks.own_begin() ? values.data() : nullptr;
      batches.push_back({{own, own, static_cast<std::int64_t>(count), DType::f32}});
    }
    for (int rank = 0; rank < ranks.total(); ++rank)
      calls.push_back({rank, {}, batches[static_cast<std::size_t>(rank)]});
  }
  void operator()(CommunicatorBackend& communicator, const backend::ProcessRanks& ranks) {
    communicator.all_reduce(
        {.operation = "all_reduce(sum)",
         .calls = calls,
         .own = std::span(calls).subspan(static_cast<std::size_t>(ranks.own_begin()), 1)});
  }
};

}  // namespace

TEST_CASE("ranks of several processes receive the bits that one process's would", "[host]") {
  skip_under_thread_sanitizer();
  const Shape shape = GENERATE(Shape{2, 1}, Shape{2, 2}, Shape{3, 2}, Shape{4, 1}, Shape{2, 3}, Shape{1, 2});
  const bool one_thread = GENERATE(false, true);
  if (one_thread && shape.ranks_of_each == 1) return;
  const SocketStar star(shape.num_processes);
  test::ProcessTeam team(shape.num_processes, [&](int process) {
    SocketGroup group(star, process);
    const backend::ProcessRanks ranks = ranks_of(shape, group);
    const auto communicator = host::make_shared_memory_communicator(ranks);
    if (communicator->num_ranks() != ranks.total() || !communicator->shares_memory() ||
        !communicator->combines_in_rank_order())
      throw Error("what the communicator says of itself");
    make_calls(*communicator, ranks, one_thread, calls_to_make(ranks.total()));
  });
  CHECK(team.wait_for_all() == fine(shape.num_processes));
}

TEST_CASE("processes with different numbers of ranks", "[host]") {
  skip_under_thread_sanitizer();
  const SocketStar star(3);
  test::ProcessTeam team(3, [&](int process) {
    SocketGroup group(star, process);
    const backend::ProcessRanks ranks{&group, {1, 3, 1}};
    make_calls(*host::make_shared_memory_communicator(ranks), ranks, false, calls_to_make(5));
  });
  CHECK(team.wait_for_all() == fine(3));
}

// A sanitizer that watches threads sees them use one mapping.
TEST_CASE("threads that stand for processes", "[host]") {
  const Shape shape = GENERATE(Shape{2, 1}, Shape{2, 2}, Shape{3, 1});
  const SocketStar one(1), star(shape.num_processes);
  SocketGroup alone(one, 0);
  const auto segment = std::make_shared<detail::SharedSegment>(
      alone, "a test", host::SlotRing::part_bytes(ranks_of(shape, alone).num_ranks));
  test::on_replicas(shape.num_processes, [&](int process) {
    SocketGroup group(star, process);
    const backend::ProcessRanks ranks = ranks_of(shape, group);
    host::SharedMemoryCommunicator communicator(segment, ranks);
    std::vector<Call> calls = calls_to_make(ranks.total());
    std::erase_if(calls, [](const Call& call) { return call.dtypes.front() != DType::f32; });
    make_calls(communicator, ranks, false, calls);
  });
}

TEST_CASE("thousands of short collectives follow each other", "[host]") {
  const SocketStar star(3);
  test::ProcessTeam team(3, [&](int process) {
    SocketGroup group(star, process);
    const backend::ProcessRanks ranks = ranks_of({3, 1}, group);
    const auto communicator = host::make_shared_memory_communicator(ranks);
    for (int round = 0; round < 3000; ++round) {
      const std::size_t count = round % 100 == 0 ? 40'000 : static_cast<std::size_t>(1 + round % 20);
      Sum sum(ranks, count);
      sum(*communicator, ranks);
      if (sum.values != std::vector<float>(count, 3)) throw Error("round " + std::to_string(round));
    }
  });
  CHECK(team.wait_for_all() == fine(3));
}

TEST_CASE("aborting releases a waiting thread, and later calls", "[host]") {
  const std::size_t count = GENERATE(1u, 100'000u);
  const SocketStar star(2), meeting(2);
  test::ProcessTeam team(2, [&](int process) {
    SocketGroup group(star, process);
    const backend::ProcessRanks ranks = ranks_of({2, 1}, group);
    const auto communicator = host::make_shared_memory_communicator(ranks);
    Sum sum(ranks, count);
    sum(*communicator, ranks);
    if (process == 1) {
      SocketGroup(meeting, 1).all_gather("process 1 waits", "");
      ::pause();
    }
    std::jthread aborter([&] {
      SocketGroup(meeting, 0).all_gather("process 1 waits", "");
      communicator->abort();
    });
    sum(*communicator, ranks);
  });
  CHECK_THAT(team.wait(0),
             ContainsSubstring("threw: all_reduce(sum) on rank 0: the communicator was aborted"));
}

TEST_CASE("a process that is killed in a collective leaves the others for abort to release", "[host]") {
  const SocketStar star(2), meeting(2);
  test::ProcessTeam team(2, [&](int process) {
    SocketGroup group(star, process);
    const backend::ProcessRanks ranks = ranks_of({2, 1}, group);
    const auto communicator = host::make_shared_memory_communicator(ranks);
    Sum sum(ranks, 100'000);
    sum(*communicator, ranks);
    std::jthread aborter;
    if (process == 0) {
      SocketGroup(meeting, 1).all_gather("both are in collectives", "");
      aborter = std::jthread([&] {
        SocketGroup(meeting, 1).all_gather("process 1 is dead", "");
        communicator->abort();
      });
    }
    for (;;) sum(*communicator, ranks);
  });
  SocketGroup here(meeting, 0);
  here.all_gather("", "");
  ::kill(team.id(1), SIGKILL);
  CHECK(team.wait(1) == "signal 9");
  here.all_gather("", "");
  CHECK_THAT(team.wait(0), ContainsSubstring("was aborted. Make a new one."));
}

TEST_CASE("a call that was aborted is the last to touch its rank's memory", "[host]") {
  constexpr int n = 3;
  const SocketStar one(1);
  SocketGroup alone(one, 0);
  const backend::ProcessRanks ranks{&alone, {n}};
  int num_aborted = 0;
  for (int round = 0; round < 40; ++round) {
    const auto communicator = host::make_shared_memory_communicator(ranks);
    std::vector<std::vector<float>> values(n, std::vector<float>(1'000'000, 1));
    std::vector<Segment> segments;
    std::vector<RankCall> calls;
    for (auto& own : values) segments.push_back({own.data(), own.data(), 1'000'000, DType::f32});
    for (std::size_t rank = 0; rank < n; ++rank)
      calls.push_back({static_cast<int>(rank), {}, {&segments[rank], 1}});
    std::barrier<> all_have_returned(n);
    std::atomic<int> num_thrown = 0;
    std::atomic<bool> intact = true;
    test::on_replicas(n + 1, [&](int thread) {
      if (thread == n) {
        for (int i = 0; i < 10 * round; ++i) std::this_thread::yield();
        return communicator->abort();
      }
      const auto rank = static_cast<std::size_t>(thread);
      try {
        communicator->all_reduce({.operation = "all_reduce(sum)", .calls = calls, .own = {&calls[rank], 1}});
      } catch (const CollectiveAborted&) {
        ++num_thrown;
      }
      std::ranges::fill(values[rank], 7.0f);
      all_have_returned.arrive_and_wait();
      if (values[rank] != std::vector<float>(values[rank].size(), 7)) intact = false;
    });
    num_aborted += num_thrown > 0;
    REQUIRE(intact);
  }
  CHECK(num_aborted > 0);
}

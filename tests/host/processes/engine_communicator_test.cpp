#include "host/processes/engine_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/error.hpp>

#include "support/divided_ranks.hpp"
#include "support/dtypes.hpp"
#include "support/fixed_group.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

const std::vector<RanksPerProcess> kDivisions = {{1, 1}, {2, 2}, {2, 2, 2}, {1, 1, 1, 1}, {1, 3}, {3}};

// Short and long ones, an empty one, and lengths that divide into nothing.
const Tensors kMixed = {{DType::f32, DType::f64, DType::i8, DType::f16, DType::bf16, DType::i64},
                        {1, 1009, 3, 0, 70'001, 129}};

}  // namespace

TEST_CASE("reductions between processes have the bits of one process", "[host][engines]") {
  const RanksPerProcess division = GENERATE(from_range(kDivisions));
  const bool thread_per_rank = GENERATE(false, true);
  const bool in_place = GENERATE(false, true);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::min, ReduceOp::max);
  const int n = total(division);
  CAPTURE(division, thread_per_rank, in_place, name(op));
  const Ranks ranks(kMixed, n, 1, 1, in_place);
  CHECK(is_as_in_one_process(division, thread_per_rank, ranks,
                             [&](auto& communicator, backend::GroupCall group) {
                               group.op = op;
                               communicator.all_reduce(group);
                             }));
  for (int root = 0; root < n; ++root) {
    CAPTURE(root);
    CHECK(is_as_in_one_process(division, thread_per_rank, ranks,
                               [&](auto& communicator, backend::GroupCall group) {
                                 group.op = op;
                                 group.root = root;
                                 communicator.reduce(group);
                               }));
  }
  const Ranks scattered(kMixed, n, n, 1, false);
  CHECK(is_as_in_one_process(division, thread_per_rank, scattered,
                             [&](auto& communicator, backend::GroupCall group) {
                               group.op = op;
                               communicator.reduce_scatter(group);
                             }));
}

TEST_CASE("reductions between processes, every dtype", "[host][engines]") {
  const DType dtype = GENERATE(from_range(kAllDTypes));
  if (dtype == DType::boolean) return;
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max);
  if (op == ReduceOp::mean && is_integer(dtype)) return;
  CAPTURE(name(dtype), name(op));
  const RanksPerProcess division = {2, 1};
  const auto reduce = [&](auto& communicator, backend::GroupCall group) {
    group.op = op;
    communicator.all_reduce(group);
  };
  CHECK(is_as_in_one_process(division, true, Ranks({{dtype, dtype}, {1, 4099}}, 3, 1, 1, false), reduce));
  const auto scatter = [&](auto& communicator, backend::GroupCall group) {
    group.op = op;
    communicator.reduce_scatter(group);
  };
  CHECK(is_as_in_one_process(division, true, Ranks({{dtype, dtype}, {1, 1025}}, 3, 3, 1, false), scatter));
}

TEST_CASE("long reductions between processes are made in rounds", "[host][engines]") {
  const RanksPerProcess division = GENERATE(RanksPerProcess{1, 1}, RanksPerProcess{2, 1});
  const int n = total(division);
  const Tensors tensors = {{DType::f32, DType::f16}, {1'500'007, 800'003}};
  CHECK(is_as_in_one_process(
      division, true, Ranks(tensors, n, 1, 1, true),
      [](auto& communicator, const backend::GroupCall& group) { communicator.all_reduce(group); }));
  CHECK(is_as_in_one_process(
      division, true, Ranks(tensors, n, n, 1, false),
      [](auto& communicator, const backend::GroupCall& group) { communicator.reduce_scatter(group); }));
}

TEST_CASE("what one rank or every rank has reaches all ranks of all processes", "[host][engines]") {
  const RanksPerProcess division = GENERATE(from_range(kDivisions));
  const bool thread_per_rank = GENERATE(false, true);
  const int n = total(division);
  CAPTURE(division, thread_per_rank);
  for (int root = 0; root < n; ++root) {
    CAPTURE(root);
    Ranks ranks(kMixed, n, 1, 1, false);
    const auto broadcast = [&](auto& communicator, backend::GroupCall group) {
      group.root = root;
      communicator.broadcast(group);
    };
    CHECK(is_as_in_one_process(division, thread_per_rank, ranks, broadcast));
    CHECK(is_as_in_one_process(division, thread_per_rank, Ranks(kMixed, n, 1, 1, true), broadcast));
  }
  CHECK(is_as_in_one_process(
      division, thread_per_rank, Ranks(kMixed, n, 1, n, false),
      [](auto& communicator, const backend::GroupCall& group) { communicator.all_gather(group); }));

  // Ranks that bring different counts, of which one may be none; all receive the sum of them.
  Ranks uneven({{DType::i32, DType::f64}, {100'003, 2 * n}}, n, 1, n, false);
  for (int rank = 0; rank < n; ++rank) {
    uneven.segments[2 * rank].count = 100'003 / (rank + 1);
    uneven.segments[2 * rank + 1].count = rank == 1 ? 0 : rank + 1;
  }
  CHECK(is_as_in_one_process(
      division, thread_per_rank, uneven,
      [](auto& communicator, const backend::GroupCall& group) { communicator.all_gather(group); }));
}

TEST_CASE("a gather in place between processes", "[host][engines]") {
  const int n = 3;
  Ranks ranks({{DType::i32}, {5}}, n, n, 0, true);
  std::vector<Bytes> sent;
  for (int rank = 0; rank < n; ++rank) {
    ranks.segments[rank].send = ranks.sent[rank].data() + rank * 20;
    sent.insert(sent.end(),
                Bytes(ranks.sent[rank].begin() + rank * 20, ranks.sent[rank].begin() + rank * 20 + 20));
  }
  call_in_processes({2, 1}, true, ranks, [](auto& communicator, const backend::GroupCall& group) {
    communicator.all_gather(group);
  });
  Bytes expected;
  for (const Bytes& part : sent) expected.insert(expected.end(), part.begin(), part.end());
  for (const Bytes& received : ranks.sent) CHECK(received == expected);
}

TEST_CASE("transfers between ranks of all processes", "[host][engines]") {
  const RanksPerProcess division = GENERATE(from_range(kDivisions));
  const bool thread_per_rank = GENERATE(false, true);
  const int n = total(division);
  CAPTURE(division, thread_per_rank);
  // Rank i's block j goes to rank j as its block i, except some; some blocks are of odd lengths.
  const Tensors tensors = {{DType::i8, DType::f32}, {12, 40'000}};
  const Ranks ranks(tensors, n, n, n, false);
  std::vector<backend::Transfer> transfers;
  for (std::size_t s = 0; s < 2; ++s) {
    const std::int64_t block = tensors.counts[s] * static_cast<std::int64_t>(size_of(tensors.dtypes[s]));
    for (int source = 0; source < n; ++source) {
      for (int destination = 0; destination < n; ++destination) {
        if (s == 1 && (source + 2 * destination) % 3 == 0) continue;
        transfers.push_back(
            {s, source, destination, destination * block, source * block, block - source - destination});
      }
    }
  }
  CHECK(is_as_in_one_process(division, thread_per_rank, ranks,
                             [&](auto& communicator, backend::GroupCall group) {
                               group.transfers = transfers;
                               communicator.transfer(group);
                             }));
  // None at all.
  CHECK(is_as_in_one_process(
      division, thread_per_rank, ranks,
      [&](auto& communicator, backend::GroupCall group) { communicator.transfer(group); }));
}

TEST_CASE("ranks of several processes stay in step over many collectives", "[host][engines]") {
  const Ranks ranks({{DType::i64}, {100}}, 4, 1, 1, true);
  CHECK(is_as_in_one_process({2, 2}, true, ranks, [](auto& communicator, backend::GroupCall group) {
    for (int i = 0; i < 100; ++i) {
      communicator.all_reduce(group);
      group.root = i % 4;
      communicator.broadcast(group);
    }
  }));
}

TEST_CASE("abort releases all threads of a process that waits for another", "[host][engines]") {
  LocalChannels channels(2);
  FixedGroup group(0, 2);
  host::EngineCommunicator communicator({&group, {2, 1}}, channels.open(0));
  const Ranks ranks({{DType::f32}, {1000}}, 3, 1, 1, false);
  const auto calls = ranks.calls(0, 2);
  std::vector<std::string> texts(3);
  on_replicas(3, [&](int thread) {
    if (thread == 2) return communicator.abort();
    try {
      communicator.all_reduce({"all_reduce(sum)", calls.calls, std::span(calls.calls).subspan(thread, 1)});
    } catch (const CollectiveAborted& error) {
      texts[thread] = error.what();
    }
  });
  CHECK(texts ==
        std::vector<std::string>{"the communicator was aborted", "the communicator was aborted", ""});
}

TEST_CASE("each step of a call between processes has the call's time limit", "[host][engines]") {
  // Nobody comes.
  class EmptyChannel final : public backend::Channel {
   public:
    explicit EmptyChannel(std::vector<backend::Deadline>& deadlines) : deadlines_(deadlines) {}
    void all_gather(std::span<const std::byte>, std::span<std::byte>, backend::Deadline) override {}
    void broadcast(std::span<std::byte>, int, backend::Deadline deadline) override { fail(deadline); }
    void barrier(backend::Deadline) override {}
    void all_to_all(std::span<const std::span<const std::byte>>, std::span<const std::span<std::byte>>,
                    backend::Deadline deadline) override {
      fail(deadline);
    }
    void abort(std::string_view) noexcept override {}

   private:
    [[noreturn]] void fail(backend::Deadline deadline) {
      deadlines_.push_back(deadline);
      throw CollectiveTimeout("process 1 did not come.");
    }
    std::vector<backend::Deadline>& deadlines_;
  };
  FixedGroup group(0, 2);
  std::vector<backend::Deadline> deadlines;
  float own = 1, sum = 0;
  const std::vector<backend::Segment> segments = {{&own, &sum, 1, DType::f32},
                                                  {nullptr, nullptr, 1, DType::f32}};
  const std::vector<backend::RankCall> calls = {{0, {}, std::span(segments).first(1)},
                                                {1, {}, std::span(segments).subspan(1)}};
  const auto begin = std::chrono::steady_clock::now();
  for (const auto timeout : {std::chrono::milliseconds(0), std::chrono::milliseconds(70'000)}) {
    const backend::GroupCall call{
        .operation = "all_reduce(sum)", .calls = calls, .own = std::span(calls).first(1), .timeout = timeout};
    for (const auto act : {&host::EngineCommunicator::all_reduce, &host::EngineCommunicator::broadcast}) {
      host::EngineCommunicator communicator({&group, {1, 1}}, std::make_unique<EmptyChannel>(deadlines));
      CHECK_THROWS_AS((communicator.*act)(call), CollectiveTimeout);
    }
  }
  REQUIRE(deadlines.size() == 4);
  CHECK_FALSE(deadlines[0]);
  CHECK_FALSE(deadlines[1]);
  for (const std::size_t i : {2, 3}) {
    REQUIRE(deadlines[i]);
    CHECK(*deadlines[i] >= begin + std::chrono::seconds(70));
    CHECK(*deadlines[i] <= std::chrono::steady_clock::now() + std::chrono::seconds(70));
  }
}

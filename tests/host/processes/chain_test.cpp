#include "host/processes/chain.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/divided_ranks.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// Long enough for the chain of four processes.
const Tensors kLong = {
    {DType::f32, DType::f64, DType::i8, DType::f16, DType::bf16, DType::f8e5m2, DType::i64},
    {150'001, 60'007, 100'003, 90'001, 70'001, 50'021, 129}};

}  // namespace

TEST_CASE("long reductions along a chain of processes have the bits of one process", "[host][engines]") {
  using Case = std::pair<RanksPerProcess, ReduceOp>;
  const Case chosen = GENERATE(Case{{2, 2}, ReduceOp::sum}, Case{{3, 1}, ReduceOp::min},
                               Case{{1, 2, 1}, ReduceOp::product}, Case{{1, 1, 2, 3}, ReduceOp::sum});
  const bool thread_per_rank = GENERATE(false, true);
  const RanksPerProcess& division = chosen.first;
  const ReduceOp op = chosen.second;
  const int n = total(division);
  CAPTURE(division, thread_per_rank, name(op));
  const auto all_reduce = [&](auto& communicator, backend::GroupCall group) {
    group.op = op;
    communicator.all_reduce(group);
  };
  CHECK(is_as_in_one_process(division, thread_per_rank, Ranks(kLong, n, 1, 1, false), all_reduce));
  CHECK(is_as_in_one_process(division, thread_per_rank, Ranks(kLong, n, 1, 1, true), all_reduce));
  for (int root = 0; root < n; ++root) {
    CAPTURE(root);
    CHECK(is_as_in_one_process(division, thread_per_rank, Ranks(kLong, n, 1, 1, root % 2 == 0),
                               [&](auto& communicator, backend::GroupCall group) {
                                 group.op = op;
                                 group.root = root;
                                 communicator.reduce(group);
                               }));
  }
  CHECK(is_as_in_one_process(division, thread_per_rank, Ranks(kLong, n, n, 1, false),
                             [&](auto& communicator, backend::GroupCall group) {
                               group.op = op;
                               communicator.reduce_scatter(group);
                             }));
}

TEST_CASE("a chain of processes whose sums overflow tells the mean", "[host][engines]") {
  const RanksPerProcess division = GENERATE(RanksPerProcess{2, 2}, RanksPerProcess{1, 2, 1});
  const DType dtype = GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16);
  const bool overflows = GENERATE(false, true);
  const std::int64_t count = 400'009;
  CAPTURE(division, name(dtype), overflows);
  const auto ranks = [&](int send_blocks, bool in_place) {
    Ranks result({{dtype, DType::f32}, {count, 7}}, 4, send_blocks, 1, in_place);
    for (std::size_t i = 0; i < result.sent.size() && overflows; i += 2) {
      // The largest finite number at one place, infinity at another.
      Bytes& bytes = result.sent[i];
      const std::size_t size = size_of(dtype), large = 1000 * size, infinite = 300'000 * size;
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(large), size - 1, std::byte{0xff});
      bytes[large + size - 1] = std::byte{0x7f};
      bytes[large + size - 2] = dtype == DType::f16   ? std::byte{0xff}
                                : dtype == DType::f64 ? std::byte{0xef}
                                                      : std::byte{0x7f};
      if (dtype == DType::f16) bytes[large + size - 1] = std::byte{0x7b};
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(infinite), size, std::byte{0});
      bytes[infinite + size - 1] = dtype == DType::f16 ? std::byte{0x7c} : std::byte{0x7f};
      if (dtype != DType::f16)
        bytes[infinite + size - 2] = dtype == DType::f64 ? std::byte{0xf0} : std::byte{0x80};
    }
    return result;
  };
  for (const bool in_place : {false, true})
    CHECK(is_as_in_one_process(division, true, ranks(1, in_place),
                               [&](auto& communicator, backend::GroupCall group) {
                                 group.op = ReduceOp::mean;
                                 communicator.all_reduce(group);
                               }));
  for (const int root : {0, 3})
    CHECK(is_as_in_one_process(division, true, ranks(1, false),
                               [&](auto& communicator, backend::GroupCall group) {
                                 group.op = ReduceOp::mean;
                                 group.root = root;
                                 communicator.reduce(group);
                               }));
  CHECK(is_as_in_one_process(division, true, ranks(4, false),
                             [&](auto& communicator, backend::GroupCall group) {
                               group.op = ReduceOp::mean;
                               communicator.reduce_scatter(group);
                             }));
}

TEST_CASE("along a chain each link carries a message once in each direction", "[host][engines]") {
  const std::int64_t bytes = 4 << 20;
  const auto sent_by = [&](const RanksPerProcess& division) {
    const Ranks ranks({{DType::f32}, {bytes / 4}}, total(division), 1, 1, true);
    std::vector<std::int64_t> sent;
    call_in_processes(
        division, false, ranks,
        [](auto& communicator, const backend::GroupCall& group) { communicator.all_reduce(group); }, &sent);
    return sent;
  };
  for (const std::int64_t sent : sent_by({4, 4})) CHECK(sent < bytes + bytes / 16);
  CHECK(sent_by({2, 2, 2})[1] < 2 * bytes + bytes / 16);
  // Of processes with one rank and a host each no link is shared.
  for (const std::int64_t sent : sent_by({1, 1})) CHECK(sent < bytes + bytes / 16);
}

#include "host/engine/engine_communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/error.hpp>

#include "host/host_communicator.hpp"
#include "support/dtypes.hpp"
#include "support/fixed_group.hpp"
#include "support/local_channels.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using test::on_replicas;

namespace {

using Bytes = std::vector<std::byte>;
using Shape = std::vector<int>;  // how many ranks each process has

int total(const Shape& shape) {
  int n = 0;
  for (const int ranks : shape) n += ranks;
  return n;
}

struct Tensors {
  std::vector<DType> dtypes;
  std::vector<std::int64_t> counts;
};

// Any bits that are a finite number, of like magnitude: sums of them depend on their order.
Bytes random_values(DType dtype, std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (is_floating(dtype)) {
    for (std::size_t last = size_of(dtype) - 1; last < bytes.size(); last += size_of(dtype))
      bytes[last] &= std::byte{0xbf};
  }
  return bytes;
}

// What every rank brings: buffers of `send_blocks` and `receive_blocks` times the count; in place they are
// one.
struct Ranks {
  Ranks(const Tensors& tensors, int n, int send_blocks, int receive_blocks, bool in_place) {
    for (int rank = 0; rank < n; ++rank) {
      for (std::size_t s = 0; s < tensors.counts.size(); ++s) {
        const DType dtype = tensors.dtypes[s];
        const std::int64_t count = tensors.counts[s];
        sent.push_back(random_values(dtype, send_blocks * count, 100 * rank + static_cast<unsigned>(s)));
        received.push_back(
            in_place ? Bytes() : Bytes(static_cast<std::size_t>(receive_blocks * count) * size_of(dtype)));
        void* const receive = in_place ? sent.back().data() : received.back().data();
        segments.push_back({sent.back().data(), receive, count, dtype});
      }
    }
    num_segments = tensors.counts.size();
  }

  // As the process of ranks `begin` to `end` sees it.
  struct Calls {
    std::vector<backend::Segment> segments;
    std::vector<backend::RankCall> calls;
  };
  Calls calls(int begin, int end) const {
    Calls result{segments, {}};
    for (int rank = 0; rank * num_segments < segments.size(); ++rank) {
      const std::span own = std::span(result.segments).subspan(rank * num_segments, num_segments);
      for (backend::Segment& segment : own) {
        if (rank < begin || rank >= end) segment.send = segment.receive = nullptr;
      }
      result.calls.push_back({rank, {}, own});
    }
    return result;
  }

  std::vector<Bytes> sent, received;  // by rank, and segment
  std::vector<backend::Segment> segments;
  std::size_t num_segments;
};

using Collective = std::function<void(backend::CommunicatorBackend&, backend::GroupCall)>;

// Calls f for all ranks, by one thread for each or by one for each process, each process by a communicator of
// its own. Twice, as ranks must not get out of step.
// @param bytes_sent  by each process, if it is wanted.
void call_in_processes(const Shape& shape, bool thread_per_rank, const Ranks& ranks, const Collective& f,
                       std::vector<std::int64_t>* bytes_sent = nullptr) {
  const int num_processes = static_cast<int>(shape.size());
  test::LocalChannels channels(num_processes);
  struct Process {
    test::FixedGroup group;
    Ranks::Calls calls;
    std::unique_ptr<host::EngineCommunicator> communicator;
  };
  std::vector<std::unique_ptr<Process>> processes;
  struct Thread {
    Process* process;
    int first, num;
  };
  std::vector<Thread> threads;
  int begin = 0;
  for (int p = 0; p < num_processes; ++p) {
    processes.push_back(std::make_unique<Process>(
        Process{test::FixedGroup(p, num_processes), ranks.calls(begin, begin + shape[p]), nullptr}));
    Process& process = *processes.back();
    process.communicator = std::make_unique<host::EngineCommunicator>(
        backend::ProcessRanks{&process.group, shape}, channels.open(p));
    const int num_threads = thread_per_rank ? shape[p] : 1;
    for (int i = 0; i < num_threads; ++i) threads.push_back({&process, begin + i, shape[p] / num_threads});
    begin += shape[p];
  }
  on_replicas(static_cast<int>(threads.size()), [&](int i) {
    const Thread& thread = threads[i];
    const std::vector<backend::RankCall>& calls = thread.process->calls.calls;
    f(*thread.process->communicator, {.operation = "",
                                      .calls = calls,
                                      .own = std::span(calls).subspan(thread.first, thread.num),
                                      .transfers = {}});
  });
  for (int p = 0; p < num_processes && bytes_sent != nullptr; ++p)
    bytes_sent->push_back(channels.bytes_sent(p));
}

void call_in_one_process(const Ranks& ranks, const Collective& f) {
  const auto calls = ranks.calls(0, static_cast<int>(ranks.segments.size()));
  const auto communicator = host::make_host_communicator(static_cast<int>(calls.calls.size()));
  f(*communicator, {.operation = "", .calls = calls.calls, .own = calls.calls, .transfers = {}});
}

// Whether f leaves the same bytes in all buffers, however the ranks are divided into processes.
bool is_as_in_one_process(const Shape& shape, bool thread_per_rank, const Ranks& ranks, const Collective& f) {
  const auto copy_of = [](const Ranks& original) {
    Ranks copy = original;
    for (std::size_t i = 0; i < copy.segments.size(); ++i) {
      copy.segments[i].send = copy.sent[i].data();
      copy.segments[i].receive = original.segments[i].receive == original.sent[i].data()
                                     ? copy.sent[i].data()
                                     : copy.received[i].data();
    }
    return copy;
  };
  const Ranks expected = copy_of(ranks), actual = copy_of(ranks);
  call_in_one_process(expected, f);
  call_in_processes(shape, thread_per_rank, actual, f);
  return actual.sent == expected.sent && actual.received == expected.received;
}

const std::vector<Shape> kShapes = {{1, 1}, {2, 2}, {2, 2, 2}, {1, 1, 1, 1}, {1, 3}, {3}};

// Short and long ones, an empty one, and lengths that divide into nothing.
const Tensors kMixed = {{DType::f32, DType::f64, DType::i8, DType::f16, DType::bf16, DType::i64},
                        {1, 1009, 3, 0, 70'001, 129}};

}  // namespace

TEST_CASE("reductions between processes have the bits of one process", "[host][engines]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const bool thread_per_rank = GENERATE(false, true);
  const bool in_place = GENERATE(false, true);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::min, ReduceOp::max);
  const int n = total(shape);
  CAPTURE(shape, thread_per_rank, in_place, name(op));
  const Ranks ranks(kMixed, n, 1, 1, in_place);
  CHECK(
      is_as_in_one_process(shape, thread_per_rank, ranks, [&](auto& communicator, backend::GroupCall group) {
        group.op = op;
        communicator.all_reduce(group);
      }));
  for (int root = 0; root < n; ++root) {
    CAPTURE(root);
    CHECK(is_as_in_one_process(shape, thread_per_rank, ranks,
                               [&](auto& communicator, backend::GroupCall group) {
                                 group.op = op;
                                 group.root = root;
                                 communicator.reduce(group);
                               }));
  }
  const Ranks scattered(kMixed, n, n, 1, false);
  CHECK(is_as_in_one_process(shape, thread_per_rank, scattered,
                             [&](auto& communicator, backend::GroupCall group) {
                               group.op = op;
                               communicator.reduce_scatter(group);
                             }));
}

TEST_CASE("reductions between processes, every dtype", "[host][engines]") {
  const DType dtype = GENERATE(from_range(test::kAllDTypes));
  if (dtype == DType::boolean) return;
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max);
  if (op == ReduceOp::mean && is_integer(dtype)) return;
  CAPTURE(name(dtype), name(op));
  const Shape shape = {2, 1};
  const auto reduce = [&](auto& communicator, backend::GroupCall group) {
    group.op = op;
    communicator.all_reduce(group);
  };
  CHECK(is_as_in_one_process(shape, true, Ranks({{dtype, dtype}, {1, 4099}}, 3, 1, 1, false), reduce));
  const auto scatter = [&](auto& communicator, backend::GroupCall group) {
    group.op = op;
    communicator.reduce_scatter(group);
  };
  CHECK(is_as_in_one_process(shape, true, Ranks({{dtype, dtype}, {1, 1025}}, 3, 3, 1, false), scatter));
}

TEST_CASE("long reductions between processes are made in rounds", "[host][engines]") {
  const Shape shape = GENERATE(Shape{1, 1}, Shape{2, 1});
  const int n = total(shape);
  const Tensors tensors = {{DType::f32, DType::f16}, {1'500'007, 800'003}};
  CHECK(is_as_in_one_process(
      shape, true, Ranks(tensors, n, 1, 1, true),
      [](auto& communicator, const backend::GroupCall& group) { communicator.all_reduce(group); }));
  CHECK(is_as_in_one_process(
      shape, true, Ranks(tensors, n, n, 1, false),
      [](auto& communicator, const backend::GroupCall& group) { communicator.reduce_scatter(group); }));
}

// Long enough for the chain of four processes.
const Tensors kLong = {
    {DType::f32, DType::f64, DType::i8, DType::f16, DType::bf16, DType::f8e5m2, DType::i64},
    {150'001, 60'007, 100'003, 90'001, 70'001, 50'021, 129}};

TEST_CASE("long reductions along a chain of processes have the bits of one process", "[host][engines]") {
  const Shape shape = GENERATE(Shape{2, 2}, Shape{3, 1}, Shape{1, 2, 1}, Shape{1, 1, 2, 3});
  const bool thread_per_rank = GENERATE(false, true);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::min, ReduceOp::product);
  const int n = total(shape);
  CAPTURE(shape, thread_per_rank, name(op));
  const auto all_reduce = [&](auto& communicator, backend::GroupCall group) {
    group.op = op;
    communicator.all_reduce(group);
  };
  CHECK(is_as_in_one_process(shape, thread_per_rank, Ranks(kLong, n, 1, 1, false), all_reduce));
  CHECK(is_as_in_one_process(shape, thread_per_rank, Ranks(kLong, n, 1, 1, true), all_reduce));
  for (int root = 0; root < n; ++root) {
    CAPTURE(root);
    CHECK(is_as_in_one_process(shape, thread_per_rank, Ranks(kLong, n, 1, 1, root % 2 == 0),
                               [&](auto& communicator, backend::GroupCall group) {
                                 group.op = op;
                                 group.root = root;
                                 communicator.reduce(group);
                               }));
  }
  CHECK(is_as_in_one_process(shape, thread_per_rank, Ranks(kLong, n, n, 1, false),
                             [&](auto& communicator, backend::GroupCall group) {
                               group.op = op;
                               communicator.reduce_scatter(group);
                             }));
}

TEST_CASE("a chain of processes whose sums overflow tells the mean", "[host][engines]") {
  const Shape shape = GENERATE(Shape{2, 2}, Shape{1, 2, 1});
  const DType dtype = GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16);
  const bool overflows = GENERATE(false, true);
  const std::int64_t count = 400'009;
  CAPTURE(shape, name(dtype), overflows);
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
    CHECK(is_as_in_one_process(shape, true, ranks(1, in_place),
                               [&](auto& communicator, backend::GroupCall group) {
                                 group.op = ReduceOp::mean;
                                 communicator.all_reduce(group);
                               }));
  for (const int root : {0, 3})
    CHECK(
        is_as_in_one_process(shape, true, ranks(1, false), [&](auto& communicator, backend::GroupCall group) {
          group.op = ReduceOp::mean;
          group.root = root;
          communicator.reduce(group);
        }));
  CHECK(is_as_in_one_process(shape, true, ranks(4, false), [&](auto& communicator, backend::GroupCall group) {
    group.op = ReduceOp::mean;
    communicator.reduce_scatter(group);
  }));
}

TEST_CASE("along a chain each link carries a message once in each direction", "[host][engines]") {
  const std::int64_t bytes = 4 << 20;
  const auto sent_by = [&](const Shape& shape) {
    const Ranks ranks({{DType::f32}, {bytes / 4}}, total(shape), 1, 1, true);
    std::vector<std::int64_t> sent;
    call_in_processes(
        shape, false, ranks,
        [](auto& communicator, const backend::GroupCall& group) { communicator.all_reduce(group); }, &sent);
    return sent;
  };
  for (const std::int64_t sent : sent_by({4, 4})) CHECK(sent < bytes + bytes / 16);
  CHECK(sent_by({2, 2, 2})[1] < 2 * bytes + bytes / 16);
  // Of processes with one rank and a host each no link is shared.
  for (const std::int64_t sent : sent_by({1, 1})) CHECK(sent < bytes + bytes / 16);
}

TEST_CASE("what one rank or every rank has reaches all ranks of all processes", "[host][engines]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const bool thread_per_rank = GENERATE(false, true);
  const int n = total(shape);
  CAPTURE(shape, thread_per_rank);
  for (int root = 0; root < n; ++root) {
    CAPTURE(root);
    Ranks ranks(kMixed, n, 1, 1, false);
    const auto broadcast = [&](auto& communicator, backend::GroupCall group) {
      group.root = root;
      communicator.broadcast(group);
    };
    CHECK(is_as_in_one_process(shape, thread_per_rank, ranks, broadcast));
    CHECK(is_as_in_one_process(shape, thread_per_rank, Ranks(kMixed, n, 1, 1, true), broadcast));
  }
  CHECK(is_as_in_one_process(
      shape, thread_per_rank, Ranks(kMixed, n, 1, n, false),
      [](auto& communicator, const backend::GroupCall& group) { communicator.all_gather(group); }));

  // Ranks that bring different counts, of which one may be none; all receive the sum of them.
  Ranks uneven({{DType::i32, DType::f64}, {100'003, 2 * n}}, n, 1, n, false);
  for (int rank = 0; rank < n; ++rank) {
    uneven.segments[2 * rank].count = 100'003 / (rank + 1);
    uneven.segments[2 * rank + 1].count = rank == 1 ? 0 : rank + 1;
  }
  CHECK(is_as_in_one_process(
      shape, thread_per_rank, uneven,
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
  const Shape shape = GENERATE(from_range(kShapes));
  const bool thread_per_rank = GENERATE(false, true);
  const int n = total(shape);
  CAPTURE(shape, thread_per_rank);
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
  CHECK(
      is_as_in_one_process(shape, thread_per_rank, ranks, [&](auto& communicator, backend::GroupCall group) {
        group.transfers = transfers;
        communicator.transfer(group);
      }));
  // None at all.
  CHECK(is_as_in_one_process(
      shape, thread_per_rank, ranks,
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
  test::LocalChannels channels(2);
  test::FixedGroup group(0, 2);
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "host/engine/engine_communicator.hpp"
#include "host/host_communicator.hpp"
#include "support/fixed_group.hpp"
#include "support/local_channels.hpp"
#include "support/replicas.hpp"

/// Calls of collectives by ranks that are divided into "processes", which are threads.
namespace lockstep::test {

using Bytes = std::vector<std::byte>;
using RanksPerProcess = std::vector<int>;  // how many ranks each process has

inline int total(const RanksPerProcess& division) {
  int n = 0;
  for (const int ranks : division) n += ranks;
  return n;
}

struct Tensors {
  std::vector<DType> dtypes;
  std::vector<std::int64_t> counts;
};

// Any bits that are a finite number, of like magnitude: sums of them depend on their order.
inline Bytes random_values(DType dtype, std::int64_t count, unsigned seed) {
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
inline void call_in_processes(const RanksPerProcess& division, bool thread_per_rank, const Ranks& ranks,
                              const Collective& f, std::vector<std::int64_t>* bytes_sent = nullptr) {
  const int num_processes = static_cast<int>(division.size());
  LocalChannels channels(num_processes);
  struct Process {
    FixedGroup group;
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
        Process{FixedGroup(p, num_processes), ranks.calls(begin, begin + division[p]), nullptr}));
    Process& process = *processes.back();
    process.communicator = std::make_unique<host::EngineCommunicator>(
        backend::ProcessRanks{&process.group, division}, channels.open(p));
    const int num_threads = thread_per_rank ? division[p] : 1;
    for (int i = 0; i < num_threads; ++i) threads.push_back({&process, begin + i, division[p] / num_threads});
    begin += division[p];
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

inline void call_in_one_process(const Ranks& ranks, const Collective& f) {
  const auto calls = ranks.calls(0, static_cast<int>(ranks.segments.size()));
  const auto communicator = host::make_host_communicator(static_cast<int>(calls.calls.size()));
  f(*communicator, {.operation = "", .calls = calls.calls, .own = calls.calls, .transfers = {}});
}

// Whether f leaves the same bytes in all buffers, however the ranks are divided into processes.
inline bool is_as_in_one_process(const RanksPerProcess& division, bool thread_per_rank, const Ranks& ranks,
                                 const Collective& f) {
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
  call_in_processes(division, thread_per_rank, actual, f);
  return actual.sent == expected.sent && actual.received == expected.received;
}

}  // namespace lockstep::test

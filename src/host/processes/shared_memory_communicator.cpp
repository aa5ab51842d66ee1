#include "host/processes/shared_memory_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "host/collectives/copy_range.hpp"
#include "host/collectives/reduce_range.hpp"
#include "host/collectives/streaming.hpp"

namespace lockstep::host {
namespace {

using backend::GroupCall;
using backend::RankCall;
using backend::Segment;

const std::byte* sent(const Segment& segment) { return static_cast<const std::byte*>(segment.send); }
std::byte* received(const Segment& segment) { return static_cast<std::byte*>(segment.receive); }
std::int64_t count_of(const Segment& segment, std::int64_t size_bytes) {
  return size_bytes / static_cast<std::int64_t>(size_of(segment.dtype));
}

void lay(PieceStream& stream, std::span<const Segment> batch) {
  stream.clear();
  for (const Segment& segment : batch) stream.add(bytes_of(segment));
}

void copy(const std::byte* source, std::byte* destination, std::int64_t size_bytes, bool streaming) {
  void* const to = destination;
  copy_range(source, size_bytes, {&to, 1}, streaming);
}

// Up to this, reading everything takes less than another wait.
constexpr std::int64_t kShortBytes = 16 << 10;

}  // namespace

SharedMemoryCommunicator::SharedMemoryCommunicator(std::shared_ptr<detail::SharedSegment> segment,
                                                   const backend::ProcessRanks& ranks)
    : ring_(std::move(segment), ranks.num_ranks),
      local_begin_(ranks.own_begin()),
      local_end_(ranks.own_end()),
      ranks_(static_cast<std::size_t>(ranks.total())) {
  for (int local = local_begin_; local < local_end_; ++local) {
    Rank& rank = ranks_[static_cast<std::size_t>(local)];
    rank.chunks.resize(ranks_.size());
    rank.sources.resize(ranks_.size());
    rank.streams.resize(ranks_.size());
    rank.transfers.resize(ranks_.size());
    rank.slice.resize(static_cast<std::size_t>(ring_.chunk_bytes() / num_ranks()));
  }
}

template <class Give, class Take>
void SharedMemoryCommunicator::make_steps(const GroupCall& group, std::int64_t num_steps, const Give& give,
                                          const Take& take) {
  // As if all processes had as many threads for each rank as this one.
  const std::uint64_t num_threads = ranks_.size() / group.own.size();
  if (!ring_.make_steps(group.own, num_threads, num_steps, give, take)) throw_aborted(group);
  if (num_steps > 0) end_streaming();
}

void SharedMemoryCommunicator::throw_aborted(const GroupCall& group) const {
  ring_.await_users();
  LOCKSTEP_EXPECTS(false, CollectiveAborted, group.operation, " on rank ", group.own.front().rank,
                   ": the communicator was aborted. Make a new one.");
}

std::span<const std::byte*> SharedMemoryCommunicator::chunks_of(Rank& here, std::uint64_t step,
                                                                std::int64_t size_bytes) const {
  for (int rank = 0; rank < num_ranks(); ++rank)
    here.chunks[static_cast<std::size_t>(rank)] = ring_.chunk(rank, step, size_bytes);
  return here.chunks;
}

void SharedMemoryCommunicator::copy_in(const RankCall& call, const PieceStream& stream, const Range& chunk,
                                       const Range& part, std::uint64_t step) const {
  std::byte* const to = ring_.chunk(call.rank, step, chunk.size()) + (part.begin - chunk.begin);
  stream.for_each_part(
      part.begin, part.end, [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
        std::memcpy(to + at, sent(call.segments[s]) + begin, static_cast<std::size_t>(end - begin));
      });
}
void SharedMemoryCommunicator::copy_in(const RankCall& call, const PieceStream& stream, std::int64_t k,
                                       std::uint64_t step) const {
  const Range chunk = chunk_of(stream, k);
  copy_in(call, stream, chunk, chunk, step);
}

void SharedMemoryCommunicator::combine(const GroupCall& group, int root) {
  PieceStream& stream = scratch(group).streams.front();
  lay(stream, group.calls.front().segments);
  const std::int64_t size = stream.size_bytes();
  const bool streaming = streaming_pays(2 * num_ranks() * size);
  if (num_ranks() <= 2 || size <= kShortBytes)
    combine_all(group, root, stream, streaming);
  else
    combine_slices(group, root, stream, streaming);
}

void SharedMemoryCommunicator::combine_all(const GroupCall& group, int root, const PieceStream& stream,
                                           bool streaming) {
  Rank& here = scratch(group);
  make_steps(
      group, num_chunks(stream.size_bytes()),
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) { copy_in(call, stream, k, step); },
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        if (root != kAll && root != call.rank) return;
        const Range range = chunk_of(stream, k - 1);
        const auto chunks = chunks_of(here, step, range.size());
        stream.for_each_part(range.begin, range.end,
                             [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
                               const Segment& own = call.segments[s];
                               for (std::size_t i = 0; i < chunks.size(); ++i)
                                 here.sources[i] = chunks[i] + at;
                               here.sources[static_cast<std::size_t>(call.rank)] = sent(own) + begin;
                               void* const to = received(own) + begin;
                               reduce_range(group.op, own.dtype, count_of(own, end - begin), here.sources,
                                            {&to, 1}, streaming);
                             });
      });
}

// The ranks of this process see each other's memory: what they bring to their own slices need not be copied,
// and the results of these go to all of them at once. Threads use each other's memory only in what they give,
// which all have published before any returns.
void SharedMemoryCommunicator::combine_slices(const GroupCall& group, int root, const PieceStream& stream,
                                              bool streaming) {
  Rank& here = scratch(group);
  const std::int64_t chunks_to_do = num_chunks(stream.size_bytes());
  const auto slices_of = [&](const Range& chunk, int first, int last) {
    constexpr std::int64_t kLine = 64;
    const std::int64_t lines = (chunk.size() + kLine - 1) / kLine;
    const std::int64_t size = (lines + num_ranks() - 1) / num_ranks() * kLine;
    return Range{std::min(chunk.begin + first * size, chunk.end),
                 std::min(chunk.begin + last * size, chunk.end)};
  };
  const auto receives = [&](int rank) { return root == kAll || root == rank; };

  const auto combine_slice = [&](const RankCall& call, const Range& range, std::uint64_t step) {
    const Range slice = slices_of(range, call.rank, call.rank + 1);
    const auto chunks = chunks_of(here, step - 1, range.size());
    std::byte* const result = ring_.result(call.rank, step);
    stream.for_each_part(
        slice.begin, slice.end, [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
          here.destinations.clear();
          for (int rank = 0; rank < num_ranks(); ++rank) {
            const auto i = static_cast<std::size_t>(rank);
            const Segment& segment = group.calls[i].segments[s];
            here.sources[i] =
                is_local(rank) ? sent(segment) + begin : chunks[i] + (slice.begin - range.begin) + at;
            if (is_local(rank) && receives(rank)) here.destinations.push_back(received(segment) + begin);
          }
          // Copying takes over the other processes' cache lines of the slot faster than arithmetic does.
          void* combined = here.slice.data();
          const std::span<void* const> to = here.destinations;
          const bool at_once = !streaming && !to.empty();
          if (at_once) combined = to.front();
          reduce_range(group.op, call.segments[s].dtype, count_of(call.segments[s], end - begin),
                       here.sources, at_once ? to : std::span<void* const>(&combined, 1),
                       /*streaming=*/false);
          std::memcpy(result + at, combined, static_cast<std::size_t>(end - begin));
          if (!at_once) copy_range(combined, end - begin, to, streaming);
        });
    if (streaming) end_streaming();
  };
  make_steps(
      group, chunks_to_do + 1,
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        if (k < chunks_to_do) {
          const Range range = chunk_of(stream, k), local = slices_of(range, local_begin_, local_end_);
          copy_in(call, stream, range, {range.begin, local.begin}, step);
          copy_in(call, stream, range, {local.end, range.end}, step);
        }
        const auto combine = [&] { combine_slice(call, chunk_of(stream, k - 1), step); };
        if (k > 0 && !ring_.use_memory(call.rank, combine)) throw_aborted(group);
      },
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        if (k < 2 || !receives(call.rank)) return;
        const Range range = chunk_of(stream, k - 2);
        for (int rank = 0; rank < num_ranks(); ++rank) {
          if (is_local(rank)) continue;
          const Range slice = slices_of(range, rank, rank + 1);
          const std::byte* const result = ring_.result(rank, step);
          stream.for_each_part(slice.begin, slice.end,
                               [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
                                 copy(result + at, received(call.segments[s]) + begin, end - begin,
                                      streaming);
                               });
        }
      });
}

void SharedMemoryCommunicator::broadcast(const GroupCall& group) {
  PieceStream& stream = scratch(group).streams.front();
  lay(stream, group.calls[static_cast<std::size_t>(group.root)].segments);
  const bool streaming = streaming_pays((num_ranks() + 1) * stream.size_bytes());
  make_steps(
      group, num_chunks(stream.size_bytes()),
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        if (call.rank == group.root) copy_in(call, stream, k, step);
      },
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        const Range range = chunk_of(stream, k - 1);
        const std::byte* const chunk = ring_.chunk(group.root, step, range.size());
        stream.for_each_part(
            range.begin, range.end,
            [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
              const Segment& own = call.segments[s];
              if (call.rank == group.root && (own.receive == nullptr || own.receive == own.send)) return;
              copy(chunk + at, received(own) + begin, end - begin, streaming);
            });
      });
}

// Each rank's segments are a stream of its own.
void SharedMemoryCommunicator::all_gather(const GroupCall& group) {
  std::vector<PieceStream>& streams = scratch(group).streams;
  std::int64_t longest = 0, total = 0;
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    lay(streams[rank], group.calls[rank].segments);
    longest = std::max(longest, streams[rank].size_bytes());
    total += streams[rank].size_bytes();
  }
  const bool streaming = streaming_pays((num_ranks() + 1) * total);
  make_steps(
      group, num_chunks(longest),
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        copy_in(call, streams[static_cast<std::size_t>(call.rank)], k, step);
      },
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        for (int rank = 0; rank < num_ranks(); ++rank) {
          const PieceStream& stream = streams[static_cast<std::size_t>(rank)];
          const Range range = chunk_of(stream, k - 1);
          const std::byte* const chunk = ring_.chunk(rank, step, range.size());
          stream.for_each_part(range.begin, range.end,
                               [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
                                 std::byte* to = received(call.segments[s]) + begin;
                                 for (int before = 0; before < rank; ++before)
                                   to += bytes_of(group.calls[static_cast<std::size_t>(before)].segments[s]);
                                 const std::byte* const own = sent(call.segments[s]) + begin;
                                 copy(rank == call.rank ? own : chunk + at, to, end - begin, streaming);
                               });
        }
      });
}

// The stream is what each rank receives. A chunk has an equal part of each rank's, so that all have equal
// work.
void SharedMemoryCommunicator::reduce_scatter(const GroupCall& group) {
  Rank& here = scratch(group);
  PieceStream& stream = here.streams.front();
  lay(stream, group.calls.front().segments);
  const std::int64_t part_bytes = ring_.chunk_bytes() / num_ranks();
  const auto part_of = [&](std::int64_t k) {
    return Range{k * part_bytes, std::min((k + 1) * part_bytes, stream.size_bytes())};
  };
  const auto distance = [](const Range& part) { return (part.size() + 15) / 16 * 16; };
  const bool streaming = streaming_pays(num_ranks() * (num_ranks() + 1) * stream.size_bytes());
  make_steps(
      group, (stream.size_bytes() + part_bytes - 1) / part_bytes,
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        const Range part = part_of(k);
        std::byte* const chunk = ring_.chunk(call.rank, step, num_ranks() * distance(part));
        for (int to = 0; to < num_ranks(); ++to) {
          if (to == call.rank) continue;
          stream.for_each_part(part.begin, part.end,
                               [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
                                 const Segment& own = call.segments[s];
                                 std::memcpy(chunk + to * distance(part) + at,
                                             sent(own) + to * bytes_of(own) + begin,
                                             static_cast<std::size_t>(end - begin));
                               });
        }
      },
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        const Range part = part_of(k - 1);
        const auto chunks = chunks_of(here, step, num_ranks() * distance(part));
        stream.for_each_part(part.begin, part.end,
                             [&](std::size_t s, std::int64_t begin, std::int64_t end, std::int64_t at) {
                               const Segment& own = call.segments[s];
                               for (std::size_t i = 0; i < chunks.size(); ++i)
                                 here.sources[i] = chunks[i] + call.rank * distance(part) + at;
                               here.sources[static_cast<std::size_t>(call.rank)] =
                                   sent(own) + call.rank * bytes_of(own) + begin;
                               void* const to = received(own) + begin;
                               reduce_range(group.op, own.dtype, count_of(own, end - begin), here.sources,
                                            {&to, 1}, streaming);
                             });
      });
}

// The transfers from each rank to others are a stream of its own.
void SharedMemoryCommunicator::transfer(const GroupCall& group) {
  Rank& here = scratch(group);
  for (PieceStream& stream : here.streams) stream.clear();
  for (std::vector<std::size_t>& of_stream : here.transfers) of_stream.clear();
  std::int64_t total = 0;
  for (const backend::Transfer& transfer : group.transfers) total += transfer.size_bytes;
  const bool streaming = streaming_pays(2 * total);
  const auto source = [&](const RankCall& call, const backend::Transfer& transfer) {
    return sent(call.segments[transfer.segment]) + transfer.send_begin_bytes;
  };
  const auto destination = [&](const RankCall& call, const backend::Transfer& transfer) {
    return received(call.segments[transfer.segment]) + transfer.receive_begin_bytes;
  };

  for (std::size_t i = 0; i < group.transfers.size(); ++i) {
    const backend::Transfer& transfer = group.transfers[i];
    if (transfer.source != transfer.destination) {
      const auto rank = static_cast<std::size_t>(transfer.source);
      here.streams[rank].add(transfer.size_bytes);
      here.transfers[rank].push_back(i);
    } else {
      for (const RankCall& call : group.own)
        if (call.rank == transfer.source)
          copy(source(call, transfer), destination(call, transfer), transfer.size_bytes, streaming);
    }
  }
  end_streaming();
  std::int64_t longest = 0;
  for (const PieceStream& stream : here.streams) longest = std::max(longest, stream.size_bytes());
  make_steps(
      group, num_chunks(longest),
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        const auto rank = static_cast<std::size_t>(call.rank);
        const Range range = chunk_of(here.streams[rank], k);
        std::byte* const chunk = ring_.chunk(call.rank, step, range.size());
        here.streams[rank].for_each_part(
            range.begin, range.end,
            [&](std::size_t piece, std::int64_t begin, std::int64_t end, std::int64_t at) {
              const backend::Transfer& transfer = group.transfers[here.transfers[rank][piece]];
              std::memcpy(chunk + at, source(call, transfer) + begin, static_cast<std::size_t>(end - begin));
            });
      },
      [&](const RankCall& call, std::int64_t k, std::uint64_t step) {
        for (std::size_t rank = 0; rank < here.streams.size(); ++rank) {
          const Range range = chunk_of(here.streams[rank], k - 1);
          const std::byte* const chunk = ring_.chunk(static_cast<int>(rank), step, range.size());
          here.streams[rank].for_each_part(
              range.begin, range.end,
              [&](std::size_t piece, std::int64_t begin, std::int64_t end, std::int64_t at) {
                const backend::Transfer& transfer = group.transfers[here.transfers[rank][piece]];
                if (transfer.destination == call.rank)
                  copy(chunk + at, destination(call, transfer) + begin, end - begin, streaming);
              });
        }
      });
}

std::unique_ptr<backend::CommunicatorBackend> make_shared_memory_communicator(
    const backend::ProcessRanks& ranks) {
  const std::string what =
      detail::concat("a communicator of ", ranks.total(), " ranks in ", ranks.num_ranks.size(), " processes");
  return std::make_unique<SharedMemoryCommunicator>(
      std::make_shared<detail::SharedSegment>(*ranks.group, what, SlotRing::part_bytes(ranks.num_ranks)),
      ranks);
}

}  // namespace lockstep::host

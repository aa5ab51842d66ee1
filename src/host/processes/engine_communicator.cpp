#include "host/processes/engine_communicator.hpp"

#include <algorithm>
#include <utility>

#include "host/collectives/copy_range.hpp"
#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"

namespace lockstep::host {
namespace {

// Of each process's share in a round, and of each buffer: 1 MiB.
constexpr std::int64_t kChunksPerRound = 4;

std::vector<int> begins_of(const backend::ProcessRanks& ranks) {
  std::vector<int> begins;
  for (std::size_t p = 0; p <= ranks.num_ranks.size(); ++p)
    begins.push_back(ranks.begin(static_cast<int>(p)));
  return begins;
}

const void* send_at(const backend::Segment& segment, std::int64_t begin_bytes) {
  return static_cast<const std::byte*>(segment.send) + begin_bytes;
}
void* receive_at(const backend::Segment& segment, std::int64_t begin_bytes) {
  return static_cast<std::byte*>(segment.receive) + begin_bytes;
}

// In scratch memory each part begins at a multiple of this: elements are aligned.
std::int64_t padded(std::int64_t size_bytes) {
  constexpr std::int64_t kLine = 64;
  return (size_bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

EngineCommunicator::EngineCommunicator(const backend::ProcessRanks& ranks,
                                       std::unique_ptr<backend::Channel> channel)
    : channel_(std::move(channel)),
      process_(ranks.group->process()),
      begins_(begins_of(ranks)),
      num_ranks_(ranks.total()),
      exchange_(*channel_, process_, num_processes()),
      chain_(exchange_, ranks),
      sources_(static_cast<std::size_t>(num_ranks_)),
      num_collectives_(static_cast<std::size_t>(num_ranks_of(process_))) {}

int EngineCommunicator::process_of(int rank) const noexcept {
  return static_cast<int>(std::ranges::upper_bound(begins_, rank) - begins_.begin()) - 1;
}

template <class Work>
void EngineCommunicator::once(const backend::GroupCall& group, const Work& work) {
  std::uint64_t number = 0;
  for (const backend::RankCall& call : group.own)
    number = ++num_collectives_[static_cast<std::size_t>(call.rank - begin(process_))];
  std::uint64_t before = number - 1;
  if (num_taken_.compare_exchange_strong(before, number, std::memory_order_seq_cst)) {
    try {
      exchange_.set_time_limit(group.timeout);
      work();
    } catch (...) {
      failure_ = std::current_exception();
      has_failed_.store(true, std::memory_order_seq_cst);
      parking_.wake();
      throw;
    }
    num_done_.store(number, std::memory_order_seq_cst);
    parking_.wake();
    return;
  }
  parking_.wait(num_collectives_.size(), [&] {
    return num_done_.load(std::memory_order_seq_cst) >= number || has_failed_.load(std::memory_order_seq_cst);
  });
  if (num_done_.load(std::memory_order_seq_cst) < number) std::rethrow_exception(failure_);
}

void EngineCommunicator::combine(const backend::GroupCall& group, const Parts& parts) {
  const std::vector<ReducedPart>& own = parts[static_cast<std::size_t>(process_)];
  std::int64_t stride = 0;  // of one rank's contributions
  for (const ReducedPart& part : own) stride += padded(part.size_bytes);
  const std::int64_t num_others = num_ranks_ - num_ranks_of(process_);
  contributions_.resize(std::max(contributions_.size(), static_cast<std::size_t>(stride * num_others)));
  results_.resize(std::max(results_.size(), static_cast<std::size_t>(stride)));
  const auto contribution = [&](int rank, std::int64_t offset) {
    const int other = rank < begin(process_) ? rank : rank - num_ranks_of(process_);
    return contributions_.data() + other * stride + offset;
  };

  std::int64_t largest = 0;
  for (int p = 0; p < num_processes(); ++p) {
    std::int64_t share = 0;
    for (const ReducedPart& part : parts[static_cast<std::size_t>(p)]) share += part.size_bytes;
    for (int sender = 0; sender < num_processes(); ++sender) {
      if (sender != p) largest = std::max(largest, num_ranks_of(sender) * share);
    }
    if (p == process_) continue;
    for (int rank = begin(process_); rank < begin(process_ + 1); ++rank) {
      for (const ReducedPart& part : parts[static_cast<std::size_t>(p)]) {
        const backend::Segment& segment = group.calls[static_cast<std::size_t>(rank)].segments[part.segment];
        exchange_.send(p, send_at(segment, part.send_begin_bytes), part.size_bytes);
      }
    }
    for (int rank = begin(p); rank < begin(p + 1); ++rank) {
      std::int64_t offset = 0;
      for (const ReducedPart& part : own) {
        exchange_.receive(p, contribution(rank, offset), part.size_bytes);
        offset += padded(part.size_bytes);
      }
    }
  }
  exchange_.run(largest);

  std::int64_t offset = 0;
  for (const ReducedPart& part : own) {
    const auto segment_of = [&](int rank) -> const backend::Segment& {
      return group.calls[static_cast<std::size_t>(rank)].segments[part.segment];
    };
    for (int rank = 0; rank < num_ranks_; ++rank)
      sources_[static_cast<std::size_t>(rank)] =
          is_local(rank) ? send_at(segment_of(rank), part.send_begin_bytes) : contribution(rank, offset);
    destinations_.clear();
    if (part.receiver >= 0 && !is_local(part.receiver)) {
      destinations_.push_back(results_.data() + offset);
    } else {
      const int first = part.receiver >= 0 ? part.receiver : begin(process_);
      const int last = part.receiver >= 0 ? part.receiver + 1 : begin(process_ + 1);
      for (int rank = first; rank < last; ++rank)
        destinations_.push_back(receive_at(segment_of(rank), part.receive_begin_bytes));
    }
    const DType dtype = segment_of(begin(process_)).dtype;
    reduce_range(group.op, dtype, part.size_bytes / static_cast<std::int64_t>(size_of(dtype)), sources_,
                 destinations_, /*streaming=*/false);
    offset += padded(part.size_bytes);
  }
}

void EngineCommunicator::spread(const backend::GroupCall& group, const Parts& parts, int root) {
  const int reader = root < 0 ? begin(process_) : root;  // the local rank whose memory takes the results
  const auto place = [&](const ReducedPart& part) {
    const backend::Segment& segment = group.calls[static_cast<std::size_t>(reader)].segments[part.segment];
    return receive_at(segment, part.receive_begin_bytes);
  };
  std::int64_t largest = 0;
  for (int p = 0; p < num_processes(); ++p) {
    std::int64_t share = 0, offset = 0;
    for (const ReducedPart& part : parts[static_cast<std::size_t>(p)]) share += part.size_bytes;
    largest = std::max(largest, share);
    if (p == process_) continue;
    if (root < 0 || is_local(root)) {
      for (const ReducedPart& part : parts[static_cast<std::size_t>(p)])
        exchange_.receive(p, place(part), part.size_bytes);
    }
    if (root >= 0 && p != process_of(root)) continue;
    for (const ReducedPart& part : parts[static_cast<std::size_t>(process_)]) {
      exchange_.send(p, root < 0 ? place(part) : results_.data() + offset, part.size_bytes);
      offset += padded(part.size_bytes);
    }
  }
  exchange_.run(largest);
  if (root >= 0) return;
  for (int p = 0; p < num_processes(); ++p) {
    if (p == process_) continue;
    for (const ReducedPart& part : parts[static_cast<std::size_t>(p)])
      copy_to_others(group, part.segment, part.receive_begin_bytes, part.size_bytes);
  }
}

void EngineCommunicator::copy_to_others(const backend::GroupCall& group, std::size_t segment,
                                        std::int64_t begin_bytes, std::int64_t size_bytes) {
  const auto at = [&](int rank) {
    return receive_at(group.calls[static_cast<std::size_t>(rank)].segments[segment], begin_bytes);
  };
  destinations_.clear();
  for (int rank = begin(process_) + 1; rank < begin(process_ + 1); ++rank) destinations_.push_back(at(rank));
  copy_range(at(begin(process_)), size_bytes, destinations_, /*streaming=*/false);
}

void EngineCommunicator::reduce_along_chain(const backend::GroupCall& group,
                                            std::span<const ReducedPart> parts) {
  for (const ReducedPart& part : chain_.reduce(group, parts)) {
    const int combiner = part.receiver < 0 ? num_processes() - 1 : process_of(part.receiver);
    Parts left_over(static_cast<std::size_t>(num_processes()));
    left_over[static_cast<std::size_t>(combiner)].push_back(part);
    combine(group, left_over);
    if (part.receiver < 0) spread(group, left_over, -1);
  }
}

void EngineCommunicator::reduce_to(const backend::GroupCall& group, int root) {
  once(group, [&] {
    const std::span<const backend::Segment> batch = group.calls.front().segments;
    const auto bytes = [&](std::size_t s) { return bytes_of(batch[s]); };
    if (chain_.pays(total_bytes(batch))) {
      std::vector<ReducedPart> parts;
      for (std::size_t s = 0; s < batch.size(); ++s) parts.push_back({s, 0, bytes(s), root, 0});
      return reduce_along_chain(group, parts);
    }
    const Slices slices(batch.size(), bytes, num_processes());
    for (std::int64_t first = 0; first < slices.chunks_per_slice(); first += kChunksPerRound) {
      Parts parts(static_cast<std::size_t>(num_processes()));
      for (int p = 0; p < num_processes(); ++p) {
        for (std::int64_t chunk = first; chunk < first + kChunksPerRound; ++chunk) {
          slices.for_each_part(batch.size(), bytes, p, chunk,
                               [&](std::size_t s, std::int64_t begin_bytes, std::int64_t end_bytes) {
                                 parts[static_cast<std::size_t>(p)].push_back(
                                     {s, begin_bytes, end_bytes - begin_bytes, root, begin_bytes});
                               });
        }
      }
      combine(group, parts);
      spread(group, parts, root);
    }
  });
}

void EngineCommunicator::all_reduce(const backend::GroupCall& group) { reduce_to(group, -1); }
void EngineCommunicator::reduce(const backend::GroupCall& group) { reduce_to(group, group.root); }

// The pieces are what each rank receives of each segment; a process combines its own ranks'.
void EngineCommunicator::reduce_scatter(const backend::GroupCall& group) {
  once(group, [&] {
    const std::span<const backend::Segment> batch = group.calls.front().segments;
    if (chain_.pays(num_ranks_ * total_bytes(batch))) {
      std::vector<ReducedPart> parts;
      for (std::size_t s = 0; s < batch.size(); ++s)
        for (int rank = 0; rank < num_ranks_; ++rank)
          parts.push_back({s, rank * bytes_of(batch[s]), bytes_of(batch[s]), rank, 0});
      return reduce_along_chain(group, parts);
    }
    const auto slices_of = [&](int p) {
      const auto ranks = static_cast<std::size_t>(num_ranks_of(p));
      return Slices(
          batch.size() * ranks, [&](std::size_t piece) { return bytes_of(batch[piece / ranks]); }, 1);
    };
    std::int64_t num_chunks = 0;
    for (int p = 0; p < num_processes(); ++p)
      num_chunks = std::max(num_chunks, slices_of(p).chunks_per_slice());
    for (std::int64_t first = 0; first < num_chunks; first += kChunksPerRound) {
      Parts parts(static_cast<std::size_t>(num_processes()));
      for (int p = 0; p < num_processes(); ++p) {
        const auto ranks = static_cast<std::size_t>(num_ranks_of(p));
        const Slices slices = slices_of(p);
        for (std::int64_t chunk = first; chunk < first + kChunksPerRound; ++chunk) {
          slices.for_each_part(
              batch.size() * ranks, [&](std::size_t piece) { return bytes_of(batch[piece / ranks]); }, 0,
              chunk,
              [&](std::size_t piece, std::int64_t begin_bytes, std::int64_t end_bytes) {
                const std::size_t s = piece / ranks;
                const int receiver = begin(p) + static_cast<int>(piece % ranks);
                parts[static_cast<std::size_t>(p)].push_back({s, receiver * bytes_of(batch[s]) + begin_bytes,
                                                              end_bytes - begin_bytes, receiver,
                                                              begin_bytes});
              });
        }
      }
      combine(group, parts);
    }
  });
}

void EngineCommunicator::broadcast(const backend::GroupCall& group) {
  once(group, [&] {
    const std::span<const backend::Segment> batch =
        group.calls[static_cast<std::size_t>(group.root)].segments;
    const int source = process_of(group.root);
    for (std::size_t s = 0; s < batch.size(); ++s) {
      if (!is_local(group.root)) {
        const backend::RankCall& first = group.calls[static_cast<std::size_t>(begin(process_))];
        exchange_.receive(source, first.segments[s].receive, bytes_of(batch[s]));
        continue;
      }
      exchange_.send(source, batch[s].send, bytes_of(batch[s]));
      destinations_.clear();
      for (int rank = begin(process_); rank < begin(process_ + 1); ++rank)
        destinations_.push_back(group.calls[static_cast<std::size_t>(rank)].segments[s].receive);
      copy_range(batch[s].send, bytes_of(batch[s]), destinations_, /*streaming=*/false);
    }
    exchange_.run_broadcast(source, total_bytes(batch));
    for (std::size_t s = 0; s < batch.size() && !is_local(group.root); ++s)
      copy_to_others(group, s, 0, bytes_of(batch[s]));
  });
}

// Of each segment, what a process's ranks send lies together in what everybody receives.
void EngineCommunicator::all_gather(const backend::GroupCall& group) {
  once(group, [&] {
    const std::size_t num_segments = group.calls.front().segments.size();
    const auto segment_of = [&](int rank, std::size_t s) -> const backend::Segment& {
      return group.calls[static_cast<std::size_t>(rank)].segments[s];
    };
    const auto sum_of = [&](int first, int last, std::size_t s) {
      std::int64_t bytes = 0;
      for (int rank = first; rank < last; ++rank) bytes += bytes_of(segment_of(rank, s));
      return bytes;
    };
    std::int64_t largest = 0;
    for (int p = 0; p < num_processes(); ++p) {
      std::int64_t share = 0;
      for (std::size_t s = 0; s < num_segments; ++s) {
        const std::int64_t offset = sum_of(0, begin(p), s), size = sum_of(begin(p), begin(p + 1), s);
        share += size;
        if (p == process_) continue;
        exchange_.receive(p, receive_at(segment_of(begin(process_), s), offset), size);
        for (int rank = begin(process_); rank < begin(process_ + 1); ++rank)
          exchange_.send(p, segment_of(rank, s).send, bytes_of(segment_of(rank, s)));
      }
      largest = std::max(largest, share);
    }
    for (std::size_t s = 0; s < num_segments; ++s) {
      for (int rank = begin(process_); rank < begin(process_ + 1); ++rank) {
        destinations_.clear();
        for (int local = begin(process_); local < begin(process_ + 1); ++local)
          destinations_.push_back(receive_at(segment_of(local, s), sum_of(0, rank, s)));
        copy_range(segment_of(rank, s).send, bytes_of(segment_of(rank, s)), destinations_,
                   /*streaming=*/false);
      }
    }
    exchange_.run(largest);
    for (int p = 0; p < num_processes(); ++p) {
      for (std::size_t s = 0; s < num_segments && p != process_; ++s)
        copy_to_others(group, s, sum_of(0, begin(p), s), sum_of(begin(p), begin(p + 1), s));
    }
  });
}

void EngineCommunicator::transfer(const backend::GroupCall& group) {
  once(group, [&] {
    const auto num = static_cast<std::size_t>(num_processes());
    std::vector<std::int64_t> bytes(num * num);  // from each process to each
    for (const backend::Transfer& transfer : group.transfers) {
      const int source = process_of(transfer.source), destination = process_of(transfer.destination);
      const auto segment_of = [&](int rank) -> const backend::Segment& {
        return group.calls[static_cast<std::size_t>(rank)].segments[transfer.segment];
      };
      const void* const from =
          source == process_ ? send_at(segment_of(transfer.source), transfer.send_begin_bytes) : nullptr;
      void* const to = destination == process_
                           ? receive_at(segment_of(transfer.destination), transfer.receive_begin_bytes)
                           : nullptr;
      if (source == destination) {
        if (from != nullptr) copy_range(from, transfer.size_bytes, {&to, 1}, /*streaming=*/false);
        continue;
      }
      bytes[static_cast<std::size_t>(source) * num + static_cast<std::size_t>(destination)] +=
          transfer.size_bytes;
      if (from != nullptr) exchange_.send(destination, from, transfer.size_bytes);
      if (to != nullptr) exchange_.receive(source, to, transfer.size_bytes);
    }
    exchange_.run(std::ranges::max(bytes));
  });
}

void EngineCommunicator::abort() noexcept { channel_->abort("the communicator was aborted"); }

}  // namespace lockstep::host

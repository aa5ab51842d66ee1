#include "communicators/local_communicator.hpp"

#include <algorithm>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "graphs/capture.hpp"
#include "kernels/combine.hpp"
#include "kernels/multi/limits.hpp"

namespace lockstep::cuda {
namespace {

template <class Pointer>
Pointer moved(Pointer data, std::int64_t offset_bytes) {
  using Byte =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  return data == nullptr ? nullptr : static_cast<Byte*>(data) + offset_bytes;
}

}  // namespace

LocalCommunicator::LocalCommunicator(std::vector<CudaDevice*> ranks)
    : LocalCommunicator() {  // so that what is made goes where the rest is not
  LOCKSTEP_EXPECTS(ranks.size() <= kMostRanks, Unsupported, "A communicator of ", ranks.size(),
                   " virtual devices of one GPU: kernels combine ", kMostRanks, " at most. Use fewer.");
  for (CudaDevice* device : ranks) ranks_.push_back({device, {}});
  done_ = ranks.front()->create_event();
  for (Rank& rank : ranks_) rank.ready = rank.device->create_event();
}

LocalCommunicator::~LocalCommunicator() {
  if (done_ != backend::EventHandle()) ranks_.front().device->destroy_event(done_);
  for (const Rank& rank : ranks_)
    if (rank.ready != backend::EventHandle()) rank.device->destroy_event(rank.ready);
}

template <class Work>
void LocalCommunicator::run(const backend::GroupCall& group, const Work& work) {
  CudaDevice& device = *ranks_.front().device;
  const backend::RankCall& first = group.calls.front();
  const auto others = group.calls.subspan(1);
  for (const backend::RankCall& call : others)
    require_same_capture(group.operation, first, device, call, *rank_of(call).device);
  for (const backend::RankCall& call : others) {
    const Rank& rank = rank_of(call);
    rank.device->record(rank.ready, call.stream);
    device.wait(first.stream, rank.ready);
  }
  work(device.kernels().place_on(first.stream));
  if (others.empty()) return;
  device.record(done_, first.stream);
  for (const backend::RankCall& call : others) rank_of(call).device->wait(call.stream, done_);
}

void LocalCommunicator::begin_list(std::size_t num_items) {
  const std::size_t n = ranks_.size();
  combinations_.clear();
  spreads_.clear();
  sources_.clear();
  destinations_.clear();
  // Items refer to them.
  sources_.reserve(num_items * n);
  destinations_.reserve(num_items * n);
}

std::span<const void* const> LocalCommunicator::sources(const backend::GroupCall& group, std::size_t s,
                                                        std::int64_t offset_bytes) {
  const std::size_t begin = sources_.size();
  for (const backend::RankCall& call : group.calls)
    sources_.push_back(moved(call.segments[s].send, offset_bytes));
  return std::span(sources_).subspan(begin);
}

std::span<void* const> LocalCommunicator::destinations(const backend::GroupCall& group, std::size_t s,
                                                       std::int64_t offset_bytes, const void* but) {
  const std::size_t begin = destinations_.size();
  for (const backend::RankCall& call : group.calls) {
    void* const destination = moved(call.segments[s].receive, offset_bytes);
    if (destination != nullptr && destination != but) destinations_.push_back(destination);
  }
  return std::span(destinations_).subspan(begin);
}

template <class List>
void LocalCommunicator::combine_segments(const backend::GroupCall& group, std::size_t items_per_segment,
                                         const List& list) {
  run(group, [&](const Place& place) {
    const std::span<const backend::Segment> batch = group.calls.front().segments;
    for (int type = 0; type < kNumDTypes; ++type) {
      const auto dtype = static_cast<DType>(type);
      const auto num_segments = std::ranges::count(batch, dtype, &backend::Segment::dtype);
      if (num_segments == 0) continue;
      begin_list(static_cast<std::size_t>(num_segments) * items_per_segment);
      for (std::size_t s = 0; s < batch.size(); ++s) {
        if (batch[s].dtype == dtype) list(s);
      }
      combine_all(place, group.op, dtype, combinations_);
    }
  });
}

CommunicationPlan LocalCommunicator::plan(ReduceOp, std::span<const backend::Segment> batch,
                                          const backend::Route&) const {
  std::int64_t size_bytes = 0;
  int num_launches = 0;
  for (int type = 0; type < kNumDTypes; ++type) {
    std::size_t num_arrays = 0;
    for (const backend::Segment& segment : batch)
      if (segment.dtype == static_cast<DType>(type)) {
        size_bytes += bytes_of(segment);
        ++num_arrays;
      }
    num_launches += num_tables(num_arrays, 2 * ranks_.size());
  }
  return {.num_packs = backend::num_dtypes(batch),
          .path = CommunicationPath::one_gpu,
          .reason = "the ranks are virtual devices of one GPU",
          .in_rank_order = true,
          .bytes_read = size_bytes,
          .bytes_written = size_bytes,
          .num_launches = num_launches};
}

void LocalCommunicator::all_reduce(const backend::GroupCall& group) {
  combine_segments(group, 1, [&](std::size_t s) {
    combinations_.push_back(
        {group.calls.front().segments[s].count, sources(group, s), destinations(group, s)});
  });
}

void LocalCommunicator::reduce(const backend::GroupCall& group) {
  const std::span<const backend::Segment> root = group.calls[static_cast<std::size_t>(group.root)].segments;
  combine_segments(group, 1, [&](std::size_t s) {
    combinations_.push_back({root[s].count, sources(group, s), {&root[s].receive, 1}});
  });
}

void LocalCommunicator::reduce_scatter(const backend::GroupCall& group) {
  combine_segments(group, ranks_.size(), [&](std::size_t s) {
    for (const backend::RankCall& call : group.calls) {
      const backend::Segment& segment = call.segments[s];
      combinations_.push_back(
          {segment.count, sources(group, s, call.rank * bytes_of(segment)), {&segment.receive, 1}});
    }
  });
}

void LocalCommunicator::broadcast(const backend::GroupCall& group) {
  run(group, [&](const Place& place) {
    const std::span<const backend::Segment> root = group.calls[static_cast<std::size_t>(group.root)].segments;
    begin_list(root.size());
    for (std::size_t s = 0; s < root.size(); ++s)
      spreads_.push_back({bytes_of(root[s]), root[s].send, destinations(group, s, 0, root[s].send)});
    copy_all(place, spreads_);
  });
}

void LocalCommunicator::all_gather(const backend::GroupCall& group) {
  run(group, [&](const Place& place) {
    const std::size_t num_segments = group.calls.front().segments.size();
    begin_list(num_segments * ranks_.size());
    for (std::size_t s = 0; s < num_segments; ++s) {
      std::int64_t offset = 0;
      for (const backend::RankCall& call : group.calls) {
        const backend::Segment& sent = call.segments[s];
        spreads_.push_back({bytes_of(sent), sent.send, destinations(group, s, offset, sent.send)});
        offset += bytes_of(sent);
      }
    }
    copy_all(place, spreads_);
  });
}

void LocalCommunicator::transfer(const backend::GroupCall& group) {
  run(group, [&](const Place& place) {
    const auto segment_of = [&](int rank, const backend::Transfer& transfer) -> const backend::Segment& {
      return group.calls[static_cast<std::size_t>(rank)].segments[transfer.segment];
    };
    begin_list(group.transfers.size());
    for (const backend::Transfer& transfer : group.transfers) {
      const void* const from = moved(segment_of(transfer.source, transfer).send, transfer.send_begin_bytes);
      void* const to =
          moved(segment_of(transfer.destination, transfer).receive, transfer.receive_begin_bytes);
      if (from == to) continue;
      destinations_.push_back(to);
      spreads_.push_back({transfer.size_bytes, from, {&destinations_.back(), 1}});
    }
    copy_all(place, spreads_);
  });
}

}  // namespace lockstep::cuda

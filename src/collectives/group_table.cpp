#include "collectives/group_table.hpp"

#include <algorithm>
#include <iterator>

#include "collectives/transfers.hpp"

namespace lockstep::detail {

void GroupTable::set(std::span<const Arrival* const> arrivals) {
  clear();
  for (const Arrival* const arrival : arrivals) {
    const CollectiveCall& call = call_of(arrival);
    add_segments(call, static_cast<std::int64_t>(arrivals.size()));
    end_rank(call.batch->rank, call.batch->stream.handle());
  }
  set_spans();
  if (call_of(arrivals.front()).is({Collective::all_reduce, Collective::reduce, Collective::broadcast}))
    join_neighbours();
  find_transfers(arrivals, transfers_);
  // A segment is left out on all ranks or on none, so all skip the call or none does.
  is_empty_ = call_of(arrivals.front()).is_transfers() ? transfers_.empty() : calls_.front().segments.empty();
}

void GroupTable::set(const Rendezvous& rendezvous, int own_rank, const TensorView& tensor) {
  clear();
  for (int rank = 0; rank < rendezvous.num_ranks(); ++rank) {
    const Mailbox& mailbox = rendezvous.mailbox(rank, own_rank);
    segments_.push_back({mailbox.read, mailbox.written, tensor.size(), tensor.dtype});
    end_rank(rank, {});
  }
  set_spans();
  is_empty_ = false;
}

void GroupTable::clear() {
  segments_.clear();
  calls_.clear();
  begins_.assign(1, 0);
  transfers_.clear();
  converts_ = false;
}

void GroupTable::add_segments(const CollectiveCall& call, std::int64_t num_ranks) {
  const RankBatch& batch = *call.batch;
  const std::span<const TensorView> tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    const bool gathers = call.collective == Collective::all_gather;
    const std::int64_t size = gathers ? batch.outputs[i].size() : tensor.size();
    // Transfers refer to segments by index, so those keep empty ones.
    if (size == 0 && !call.is_transfers()) continue;
    void* const receive = batch.outputs.empty() ? nullptr : batch.outputs[i].data;
    backend::Segment segment{call.sends() ? tensor.data : nullptr, receive, tensor.size(), tensor.dtype};
    if (call.collective == Collective::reduce_scatter) segment.count /= num_ranks;
    if (call.converts(tensor)) {
      converts_ = true;
      segment.dtype = reduced_dtype(call.op, tensor.dtype);
      segment.send = call.collective == Collective::all_reduce ? receive : nullptr;
    }
    segments_.push_back(segment);
  }
}

void GroupTable::join_neighbours() {
  const std::size_t num_segments = calls_.front().segments.size();
  if (num_segments < 2 || converts_) return;
  const auto follows = [](const void* next, const void* first, std::int64_t size_bytes) {
    return first == nullptr ? next == nullptr : next == static_cast<const std::byte*>(first) + size_bytes;
  };
  const auto is_joined = [&](std::size_t s) {
    return std::ranges::all_of(calls_, [&](const backend::RankCall& call) {
      const backend::Segment &first = call.segments[s - 1], &next = call.segments[s];
      const bool is_here = first.send != nullptr || first.receive != nullptr;  // not another worker's
      return is_here && first.dtype == next.dtype && follows(next.send, first.send, bytes_of(first)) &&
             follows(next.receive, first.receive, bytes_of(first));
    });
  };
  joined_.assign(num_segments, false);
  for (std::size_t s = 1; s < num_segments; ++s) joined_[s] = is_joined(s);
  auto end = segments_.begin();
  for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
    const std::size_t begin = begins_[rank];
    begins_[rank] = static_cast<std::size_t>(end - segments_.begin());
    for (std::size_t s = 0; s < num_segments; ++s) {
      const backend::Segment segment = segments_[begin + s];
      if (joined_[s])
        std::prev(end)->count += segment.count;
      else
        *end++ = segment;
    }
  }
  segments_.erase(end, segments_.end());
  begins_.back() = segments_.size();
  set_spans();
}

void GroupTable::end_rank(int rank, backend::StreamHandle stream) {
  begins_.push_back(segments_.size());
  calls_.push_back({rank, stream, {}});
}

void GroupTable::set_spans() {
  for (backend::RankCall& call : calls_) call.segments = segments(call.rank);
}

}  // namespace lockstep::detail

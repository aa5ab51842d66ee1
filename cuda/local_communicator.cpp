#include "local_communicator.hpp"

#include <algorithm>

#include <lockstep/error.hpp>

#include "backend/segment_bytes.hpp"
#include "capture.hpp"
#include "kernels/combine.hpp"

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
    : published_(static_cast<int>(ranks.size())), finished_(static_cast<int>(ranks.size())) {
  LOCKSTEP_EXPECTS(ranks.size() <= kMostRanks, Unsupported, "A communicator of ", ranks.size(),
                   " virtual devices of one GPU: kernels combine ", kMostRanks, " at most. Use fewer.");
  done_ = ranks.front()->create_event();
  for (CudaDevice* device : ranks) ranks_.push_back({device, device->create_event()});
}

LocalCommunicator::~LocalCommunicator() {
  ranks_.front().device->destroy_event(done_);
  for (const Rank& rank : ranks_) rank.device->destroy_event(rank.ready);
}

void LocalCommunicator::publish(std::string_view operation, std::span<const backend::RankCall> calls) {
  for (const backend::RankCall& call : calls) {
    Rank& rank = ranks_[static_cast<std::size_t>(call.rank)];
    rank.call = &call;
    if (ranks_.size() > 1) rank.device->record(rank.ready, call.stream);
  }
  const bool alone = calls.size() == ranks_.size();
  const bool passed =
      alone ? !published_.has_failed() : published_.arrive_and_wait(static_cast<int>(calls.size()));
  LOCKSTEP_EXPECTS(passed, CollectiveAborted, operation, " on rank ", calls.front().rank, " of ",
                   ranks_.size(), " virtual devices: the communicator was aborted. Make a new one.");
}

template <class Work>
void LocalCommunicator::run(std::string_view operation, std::span<const backend::RankCall> calls,
                            const Work& work) {
  publish(operation, calls);
  const bool leads = std::ranges::any_of(calls, [](const backend::RankCall& call) { return call.rank == 0; });
  const bool alone = calls.size() == ranks_.size();
  std::exception_ptr error;
  if (leads) {
    try {
      Rank& lead = ranks_.front();
      const auto others = std::span(ranks_).subspan(1);
      for (const Rank& rank : others)
        require_same_capture(operation, *lead.call, *lead.device, *rank.call, *rank.device);
      for (const Rank& rank : others) lead.device->wait(lead.call->stream, rank.ready);
      work(lead.device->kernels().place_on(lead.call->stream));
      if (ranks_.size() > 1) lead.device->record(done_, lead.call->stream);
    } catch (const std::exception& exception) {
      if (!alone) failure_ = exception.what();
      error = std::current_exception();
    }
  }
  if (!alone) finished_.arrive_and_wait(static_cast<int>(calls.size()));
  if (error) std::rethrow_exception(error);
  LOCKSTEP_EXPECTS(failure_.empty(), CollectiveAborted, operation, " on rank ", calls.front().rank, " of ",
                   ranks_.size(), " virtual devices: it could not be enqueued on rank 0: ", failure_);
  for (const backend::RankCall& call : calls) {
    if (call.rank != 0) ranks_[static_cast<std::size_t>(call.rank)].device->wait(call.stream, done_);
  }
}

std::vector<const void*>& LocalCommunicator::sources(std::size_t s, std::int64_t offset_bytes) {
  sources_.clear();
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    sources_.push_back(moved(segments(i)[s].send, offset_bytes));
  return sources_;
}

std::vector<void*>& LocalCommunicator::destinations(std::size_t s, std::int64_t offset_bytes,
                                                    const void* but) {
  destinations_.clear();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    void* const destination = moved(segments(i)[s].receive, offset_bytes);
    if (destination != nullptr && destination != but) destinations_.push_back(destination);
  }
  return destinations_;
}

void LocalCommunicator::all_reduce(std::span<const backend::RankCall> calls, ReduceOp op) {
  run("all_reduce", calls, [&](const Place& place) {
    for (std::size_t s = 0; s < segments(0).size(); ++s) {
      const backend::Segment& segment = segments(0)[s];
      combine(place, op, segment.dtype, segment.count, sources(s), destinations(s));
    }
  });
}

void LocalCommunicator::reduce(std::span<const backend::RankCall> calls, ReduceOp op, int root) {
  run("reduce", calls, [&](const Place& place) {
    for (std::size_t s = 0; s < segments(0).size(); ++s) {
      const backend::Segment& segment = segments(static_cast<std::size_t>(root))[s];
      combine(place, op, segment.dtype, segment.count, sources(s), {&segment.receive, 1});
    }
  });
}

void LocalCommunicator::broadcast(std::span<const backend::RankCall> calls, int root) {
  run("broadcast", calls, [&](const Place& place) {
    for (std::size_t s = 0; s < segments(0).size(); ++s) {
      const backend::Segment& segment = segments(static_cast<std::size_t>(root))[s];
      copy_to_all(place, bytes_of(segment), segment.send, destinations(s, 0, segment.send));
    }
  });
}

void LocalCommunicator::all_gather(std::span<const backend::RankCall> calls) {
  run("all_gather", calls, [&](const Place& place) {
    for (std::size_t s = 0; s < segments(0).size(); ++s) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        const backend::Segment& sent = segments(i)[s];
        copy_to_all(place, bytes_of(sent), sent.send, destinations(s, offset, sent.send));
        offset += bytes_of(sent);
      }
    }
  });
}

void LocalCommunicator::reduce_scatter(std::span<const backend::RankCall> calls, ReduceOp op) {
  run("reduce_scatter", calls, [&](const Place& place) {
    for (std::size_t s = 0; s < segments(0).size(); ++s) {
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        const backend::Segment& segment = segments(i)[s];
        const auto offset = static_cast<std::int64_t>(i) * bytes_of(segment);
        combine(place, op, segment.dtype, segment.count, sources(s, offset), {&segment.receive, 1});
      }
    }
  });
}

void LocalCommunicator::transfer(std::string_view operation, std::span<const backend::RankCall> calls,
                                 std::span<const backend::Transfer> transfers) {
  run(operation, calls, [&](const Place&) {
    const Rank& lead = ranks_.front();
    for (const backend::Transfer& transfer : transfers) {
      const void* const from =
          moved(segments(static_cast<std::size_t>(transfer.source))[transfer.segment].send,
                transfer.send_begin_bytes);
      void* const to =
          moved(segments(static_cast<std::size_t>(transfer.destination))[transfer.segment].receive,
                transfer.receive_begin_bytes);
      if (from != to)
        lead.device->copy(to, from, static_cast<std::size_t>(transfer.size_bytes), lead.call->stream);
    }
  });
}

}  // namespace lockstep::cuda

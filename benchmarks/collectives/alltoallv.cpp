#include "collectives/alltoallv.hpp"

#include <algorithm>

#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {
namespace {

/// The number of elements from rank to rank.
class Parts {
 public:
  // The count is a rank's part if all parts were equal, or 0 with a matrix.
  Parts(const Traffic& traffic, const Counts& counts, int num_ranks)
      : traffic_(traffic),
        num_ranks_(num_ranks),
        element_bytes_(counts.element_bytes),
        total_bytes_(counts.argument * num_ranks * counts.element_bytes) {}

  std::int64_t count(int from, int to) const {
    return traffic_.bytes(from, to, num_ranks_, total_bytes_) / element_bytes_;
  }

 private:
  const Traffic& traffic_;
  int num_ranks_;
  std::int64_t element_bytes_, total_bytes_;
};

std::vector<Transfer> transfers_of(const Parts& parts, int num_ranks) {
  std::vector<std::int64_t> received(static_cast<std::size_t>(num_ranks));
  std::vector<Transfer> transfers;
  for (int from = 0; from < num_ranks; ++from) {
    std::int64_t sent = 0;
    for (int to = 0; to < num_ranks; ++to) {
      const std::int64_t count = parts.count(from, to);
      std::int64_t& begin = received[static_cast<std::size_t>(to)];
      if (count > 0)
        transfers.push_back({.source = from,
                             .destination = to,
                             .source_begin = sent,
                             .destination_begin = begin,
                             .count = count});
      sent += count;
      begin += count;
    }
  }
  return transfers;
}

/// A thread's state for one rank, kept from call to call, so that calls allocate nothing.
struct RankParts {
  std::vector<std::int64_t> send_begin, receive_begin;  // by the other rank
  std::vector<TensorView> inputs, outputs;
};

void slice(std::span<const TensorView> buffers, std::int64_t begin, std::int64_t count,
           std::vector<TensorView>& views) {
  views.clear();
  if (count == 0) return;
  for (const TensorView& buffer : buffers) {
    auto* const bytes = static_cast<std::byte*>(buffer.data);
    const std::int64_t offset = begin * static_cast<std::int64_t>(size_of(buffer.dtype));
    views.emplace_back(bytes + offset, Shape(count), buffer.dtype, buffer.device);
  }
}

// One send_recv for each distance between ranks: all threads make them in the same order.
void run(const Parts& parts, Communicator& communicator, std::span<const RankBatch> batches,
         const CommunicationOptions& options) {
  thread_local std::vector<RankParts> ranks;
  thread_local std::vector<RankBatch> calls;
  thread_local std::vector<int> destinations;
  const int n = communicator.num_ranks();
  ranks.resize(batches.size());
  calls.assign(batches.begin(), batches.end());
  destinations.resize(static_cast<std::size_t>(n));
  for (std::size_t b = 0; b < batches.size(); ++b) {
    std::int64_t sent = 0, received = 0;
    ranks[b].send_begin.clear();
    ranks[b].receive_begin.clear();
    for (int other = 0; other < n; ++other) {
      ranks[b].send_begin.push_back(sent);
      ranks[b].receive_begin.push_back(received);
      sent += parts.count(batches[b].rank, other);
      received += parts.count(other, batches[b].rank);
    }
  }
  for (int distance = 0; distance < n; ++distance) {
    bool is_empty = true;
    for (int from = 0; from < n; ++from) {
      const int to = (from + distance) % n;
      const bool sends = parts.count(from, to) > 0;
      destinations[static_cast<std::size_t>(from)] = sends ? to : -1;
      is_empty = is_empty && !sends;
    }
    if (is_empty) continue;
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const int rank = batches[b].rank, to = (rank + distance) % n, from = (rank + n - distance) % n;
      RankParts& own = ranks[b];
      slice(batches[b].inputs, own.send_begin[static_cast<std::size_t>(to)], parts.count(rank, to),
            own.inputs);
      slice(batches[b].outputs, own.receive_begin[static_cast<std::size_t>(from)], parts.count(from, rank),
            own.outputs);
      calls[b].inputs = own.inputs;
      calls[b].outputs = own.outputs;
    }
    communicator.send_recv(destinations, calls, options);
  }
}

}  // namespace

Collective alltoallv(const Traffic& traffic) {
  return {
      .name = "alltoallv",
      .bus_formula = "(n-1)/n",
      .has_in_place = false,
      .counts =
          [traffic](std::int64_t elements, int num_ranks, std::int64_t element_bytes) {
            const std::int64_t part =
                traffic.matrix.empty() ? part_of(elements, num_ranks, element_bytes) : 0;
            const std::int64_t total = part * num_ranks * element_bytes;
            return Counts{.send = traffic.most_sent(num_ranks, total) / element_bytes,
                          .receive = traffic.most_received(num_ranks, total) / element_bytes,
                          .argument = part,
                          .element_bytes = element_bytes};
          },
      .bus_factor = gather_bus_factor,
      .transfers = [traffic](const Counts& counts, int num_ranks,
                             int) { return transfers_of(Parts(traffic, counts, num_ranks), num_ranks); },
      .run =
          [traffic](Communicator& communicator, const Counts& counts, ReduceOp /*op*/, int /*root*/,
                    std::span<const RankBatch> batches, const CommunicationOptions& options) {
            run(Parts(traffic, counts, communicator.num_ranks()), communicator, batches, options);
          },
  };
}

const Collective kAllToAllV = alltoallv({});

}  // namespace lockstep::bench

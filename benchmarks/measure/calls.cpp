#include "measure/calls.hpp"

#include <algorithm>

namespace lockstep::bench {

Calls::Calls(const Collective& collective, std::vector<Group>& groups, std::span<const Replica> replicas,
             const Options& options, const Layout& layout)
    : collective_(collective),
      layout_(layout),
      communication_{.timeout = std::chrono::seconds(options.timeout_seconds),
                     .deterministic = options.algorithm == Algorithm::rank_order},
      batch_size_(static_cast<std::size_t>(std::min<std::int64_t>(options.aggregate, layout.num_slots))) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    GroupCall call{&groups[g], {}, {}};
    for (const Replica& replica : replicas) {
      if (replica.group != static_cast<int>(g)) continue;
      const DType dtype = layout.data.dtype;
      const TensorView input(layout.send_buffer(replica), Shape(layout.counts.send), dtype, replica.device);
      const TensorView output(layout.receive_buffer(replica), Shape(layout.counts.receive), dtype,
                              replica.device);
      const std::size_t num_inputs = collective.sends(replica.rank_in_group, layout.root) ? batch_size_ : 0;
      const std::size_t num_outputs =
          collective.receives(replica.rank_in_group, layout.root) ? batch_size_ : 0;
      call.ranks.push_back({&replica, std::vector(num_inputs, input), std::vector(num_outputs, output)});
    }
    if (call.ranks.empty()) continue;
    for (const Rank& rank : call.ranks)
      call.batches.push_back({rank.replica->rank_in_group, rank.replica->stream, rank.inputs, rank.outputs});
    calls_.push_back(std::move(call));
  }
}

void Calls::run(std::int64_t first, int count) {
  const std::int64_t end = first + count;
  for (std::int64_t begin = first; begin < end; begin += static_cast<std::int64_t>(batch_size_)) {
    const auto size = std::min(batch_size_, static_cast<std::size_t>(end - begin));
    for (GroupCall& call : calls_) {
      for (std::size_t r = 0; r < call.ranks.size(); ++r) {
        Rank& rank = call.ranks[r];
        const auto place = [&](std::vector<TensorView>& views, std::byte* slot_0) {
          const auto used = std::span(views).first(std::min(size, views.size()));
          for (std::size_t i = 0; i < used.size(); ++i)
            used[i].data = slot_0 + layout_.slot_offset(begin + static_cast<std::int64_t>(i));
          return used;
        };
        call.batches[r].inputs = place(rank.inputs, layout_.send_buffer(*rank.replica));
        call.batches[r].outputs = place(rank.outputs, layout_.receive_buffer(*rank.replica));
      }
      collective_.run(call.group->communicator(), layout_.counts, layout_.data.op, layout_.root, call.batches,
                      communication_);
    }
  }
}

void Calls::synchronize() const {
  for (const GroupCall& call : calls_)
    for (const Rank& rank : call.ranks) rank.replica->stream.synchronize();
}

}  // namespace lockstep::bench

#include "measure/calls.hpp"

#include <algorithm>

#include <lockstep/backend/device_backend.hpp>

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

namespace {

backend::GraphBackend& graphs_of(const Replica& replica) { return *replica.stream.device_backend().graphs(); }

}  // namespace

CapturedCalls::CapturedCalls(std::span<const Replica> replicas) {
  for (const Replica& replica : replicas) {
    const int hardware = graphs_of(replica).hardware();
    const auto gpu = std::ranges::find(gpus_, hardware, &Gpu::hardware);
    if (gpu != gpus_.end())
      gpu->replicas.push_back(&replica);
    else
      gpus_.push_back({hardware, {&replica}});
  }
  is_capturing_ = true;
  for (const Gpu& gpu : gpus_) {
    const Replica& first = *gpu.replicas.front();
    graphs_of(first).begin_capture(first.stream.handle());
    for (const Replica* const replica : std::span(gpu.replicas).subspan(1))
      replica->stream.wait(first.stream);
  }
}

CapturedCalls::~CapturedCalls() {
  if (!is_capturing_) return;
  for (const Gpu& gpu : gpus_)
    if (!gpu.graph) graphs_of(*gpu.replicas.front()).drop_capture(gpu.replicas.front()->stream.handle());
}

void CapturedCalls::end() {
  for (Gpu& gpu : gpus_) {
    const Replica& first = *gpu.replicas.front();
    for (const Replica* const replica : std::span(gpu.replicas).subspan(1))
      first.stream.wait(replica->stream);
    gpu.graph = graphs_of(first).end_capture(first.stream.handle());
  }
  is_capturing_ = false;
}

void CapturedCalls::launch(std::span<const Replica> replicas) const {
  for (const Gpu& gpu : gpus_) {
    const Replica* const first = gpu.replicas.front();
    if (first >= replicas.data() && first < replicas.data() + replicas.size())
      gpu.graph->launch(first->stream.handle());
  }
}

}  // namespace lockstep::bench

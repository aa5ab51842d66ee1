#include "measure/captured_calls.hpp"

#include <algorithm>

#include <lockstep/backend/device_backend.hpp>

namespace lockstep::bench {
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
    for (const Replica* const replica : std::span(gpu.replicas).subspan(1)) replica->stream.wait(first.stream);
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
    for (const Replica* const replica : std::span(gpu.replicas).subspan(1)) first.stream.wait(replica->stream);
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

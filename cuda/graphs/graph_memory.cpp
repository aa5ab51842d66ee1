#include "graphs/graph_memory.hpp"

#include <algorithm>
#include <utility>

#include "graphs/capture.hpp"
#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {
namespace {

constexpr const char* kOperation = "Keeping memory for a graph";

/// For calls that must not throw: a stream whose state is unknown is in no capture.
Capture capture_or_none(cudaStream_t stream, const Device& device) noexcept try {
  return capture_of(stream, device);
} catch (const DeviceError&) {
  return {};
}

}  // namespace

cudaStream_t GraphMemory::stream() {
  const std::lock_guard lock(mutex_);
  return make(stream_);
}

cudaStream_t GraphMemory::make(cudaStream_t& stream) {
  if (stream == nullptr)
    LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), device_, kOperation);
  return stream;
}

GraphMemory::Graph& GraphMemory::graph_of(const Capture& capture) {
  const auto found = std::ranges::find(graphs_, capture.id, &Graph::capture);
  if (found != graphs_.end()) return *found;
  const std::shared_ptr<const void> life = std::make_shared<int>();
  keep_with(capture, life, device_);
  is_empty_ = false;
  return graphs_.emplace_back(Graph{capture.id, life, {}, {}});
}

void GraphMemory::hold_in(Graph& graph, void* data, Block& block) {
  graph.held.push_back(data);
  ++block.num_graphs;
}

void* GraphMemory::reuse(const Capture& capture, cudaStream_t stream, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  Graph& graph = graph_of(capture);
  const auto found = graph.dropped.find({stream, size_bytes});
  if (found == graph.dropped.end()) return nullptr;
  void* const data = found->second;
  graph.dropped.erase(found);
  blocks_.at(data).has_owner = true;
  return data;
}

void GraphMemory::hold(const Capture& capture, void* data, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  Graph& graph = graph_of(capture);
  Block& block = blocks_[data] = {size_bytes, stream_, capture.id, 0, true};
  hold_in(graph, data, block);
}

bool GraphMemory::frees_wait_for(cudaStream_t stream) noexcept try {
  make(frees_);
  cudaEvent_t end = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), device_, kOperation);
  CallResult ordered = LOCKSTEP_CUDA_CALL(cudaEventRecord(end, stream));
  if (!ordered.failed()) ordered = LOCKSTEP_CUDA_CALL(cudaStreamWaitEvent(frees_, end));
  LOCKSTEP_CUDA_LOG(cudaEventDestroy(end));
  ordered.require(device_, kOperation);
  return true;
} catch (const DeviceError&) {
  return false;
}

bool GraphMemory::drop(void* data, std::size_t size_bytes, cudaStream_t stream) {
  const Capture capture = capture_or_none(stream, device_);
  if (!capture && !capture.has_failed && is_empty_) return false;
  const std::lock_guard lock(mutex_);
  auto found = blocks_.find(data);
  if (capture.has_failed && found == blocks_.end()) {  // nothing can be enqueued on the stream
    late_.emplace_back(data, Block{size_bytes, stream, 0, 0, false});
    is_empty_ = false;
    return true;
  }
  if (!capture && found == blocks_.end()) return false;
  if (!capture) {
    found->second.has_owner = false;
    // The graph may go before the owner's work on the memory is done. The free waits for that work.
    found->second.stream = !capture.has_failed && frees_wait_for(stream) ? frees_ : stream;
    return true;
  }
  try {
    graph_of(capture);
  } catch (const DeviceError&) {
    unkept_.emplace_back(data, size_bytes);
    throw;
  }
  Graph& graph = graph_of(capture);
  if (found == blocks_.end()) found = blocks_.emplace(data, Block{size_bytes, stream, 0, 0, true}).first;
  Block& block = found->second;
  block.has_owner = false;
  if (block.birth == capture.id) {
    graph.dropped.emplace(std::pair(stream, size_bytes), data);
    return true;
  }
  block.stream = stream;  // its owner may have used it there before the capture
  if (std::ranges::find(graph.held, data) == graph.held.end()) hold_in(graph, data, block);
  return true;
}

void GraphMemory::free_after(unsigned long long capture, cudaStream_t stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto graph = std::ranges::find(graphs_, capture, &Graph::capture);
  if (graph == graphs_.end() || !frees_wait_for(stream)) return;
  for (void* const data : graph->held) {
    Block& block = blocks_.at(data);
    if (block.birth == capture) block.stream = frees_;
  }
}

std::size_t GraphMemory::collect(GiveBack give_back) noexcept {
  if (is_empty_) return 0;
  const std::lock_guard lock(mutex_);
  for (auto graph = graphs_.begin(); graph != graphs_.end();) {
    if (!graph->life.expired()) {
      ++graph;
      continue;
    }
    for (void* const data : graph->held) {
      const auto block = blocks_.find(data);
      if (--block->second.num_graphs > 0) continue;
      if (!block->second.has_owner) late_.emplace_back(*block);
      blocks_.erase(block);
    }
    graph = graphs_.erase(graph);
  }
  std::size_t freed = 0;
  std::erase_if(late_, [&](const auto& late) {
    const auto& [data, block] = late;
    if (is_in_capture(block.stream)) return false;
    give_back(data, block.size_bytes, block.stream);
    freed += block.size_bytes;
    return true;
  });
  is_empty_ = graphs_.empty() && late_.empty();
  return freed;
}

CallResult GraphMemory::synchronize() {
  std::unique_lock lock(mutex_);
  const cudaStream_t streams[] = {stream_, frees_};
  lock.unlock();  // others may allocate meanwhile
  for (const cudaStream_t stream : streams) {
    if (stream == nullptr) continue;
    if (const CallResult waited = LOCKSTEP_CUDA_CALL(cudaStreamSynchronize(stream)); waited.failed())
      return waited;
  }
  return {};
}

void GraphMemory::close(GiveBack give_back) noexcept try {
  for (const auto& [data, size_bytes] : std::exchange(unkept_, {})) give_back(data, size_bytes, stream());
  synchronize().log();
  for (cudaStream_t* const stream : {&stream_, &frees_}) {
    if (*stream != nullptr) LOCKSTEP_CUDA_LOG(cudaStreamDestroy(*stream));
    *stream = nullptr;
  }
} catch (const DeviceError&) {  // the memory is lost with the device
}

}  // namespace lockstep::cuda

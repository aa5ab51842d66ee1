#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/device.hpp>

#include "libraries/call_result.hpp"

namespace lockstep::cuda {

struct Capture;

/// The memory of a GPU's pool that CUDA graphs use: launches go to the addresses that the capture saw.
///
/// No graph has nodes that allocate or free: such memory comes and goes with each launch, and nobody else can
/// free it. Memory for a capture comes from the pool, as always. What was allocated or dropped in a capture
/// is freed when it has no owner and its graphs are gone. Until then, what was both allocated and dropped in
/// one capture serves the capture's next allocations of that size on that stream. The GPU's context is
/// current in all calls. Thread-safe.
class GraphMemory {
 public:
  /// @param device  for messages.
  explicit GraphMemory(const Device& device) : device_(device) {}
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  /// Whether no graph uses any memory.
  bool is_empty() const noexcept { return is_empty_; }
  /// Memory that the capture has dropped, or null.
  void* reuse(const Capture& capture, cudaStream_t stream, std::size_t size_bytes);
  /// The stream to allocate on for captures. It is never captured, and waits for no other stream. @throws
  /// DeviceError
  cudaStream_t stream();
  /// `data` was allocated on stream(), for a capture. @throws DeviceError
  void hold(const Capture& capture, void* data, std::size_t size_bytes);
  /// The owner of `data` drops it, on `stream`, which may be in a capture, or in one that has failed.
  /// @return false: no graph uses it, and the caller frees it.
  /// @throws DeviceError  it cannot be kept with the graph, and is kept until close().
  bool drop(void* data, std::size_t size_bytes, cudaStream_t stream);
  /// What the capture with this number allocated is freed after the work of `stream` so far, on which the
  /// graph was launched.
  void free_after(unsigned long long capture, cudaStream_t stream) noexcept;
  /// Frees memory, on a stream.
  using GiveBack = detail::FunctionRef<void(void* data, std::size_t size_bytes, cudaStream_t stream)>;
  /// Gives dropped memory back whose graphs are gone. @return the number of bytes.
  std::size_t collect(GiveBack give_back) noexcept;
  /// Waits for its own streams, on which memory was given back.
  CallResult synchronize();
  /// Gives back what could not be kept with a graph. @pre Nobody uses any of the memory.
  void close(GiveBack give_back) noexcept;

 private:
  struct Block {
    std::size_t size_bytes = 0;
    cudaStream_t stream = nullptr;  // to free it on
    unsigned long long birth = 0;   // the capture that it was allocated in; 0: none
    int num_graphs = 0;             // that hold it
    bool has_owner = false;
  };
  struct Graph {
    unsigned long long capture;
    std::weak_ptr<const void> life;  // expires when the graph is gone
    std::vector<void*> held;
    std::multimap<std::pair<cudaStream_t, std::size_t>, void*> dropped;  // of those that were born in it
  };

  cudaStream_t make(cudaStream_t& stream);
  Graph& graph_of(const Capture& capture);
  bool frees_wait_for(cudaStream_t stream) noexcept;
  void hold_in(Graph& graph, void* data, Block& block);

  const Device& device_;
  std::atomic<bool> is_empty_{true};  // no graph uses a block
  std::mutex mutex_;                  // guards the members below
  std::list<Graph> graphs_;
  std::map<void*, Block> blocks_;
  std::vector<std::pair<void*, Block>> late_;          // to be freed when their stream is in no capture
  std::vector<std::pair<void*, std::size_t>> unkept_;  // graphs may use it until close()
  cudaStream_t stream_ = nullptr;                      // to allocate on
  cudaStream_t frees_ = nullptr;                       // waits for the owners' streams
};

}  // namespace lockstep::cuda

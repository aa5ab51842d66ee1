#include "graphs/cuda_graphs.hpp"

#include <utility>

#include <lockstep/error.hpp>

#include "device/cuda_memory.hpp"
#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "graphs/private_streams.hpp"
#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {
namespace {

constexpr const char* kOperation = "Capturing a step";

class CudaGraph final : public backend::Graph {
 public:
  /// @param capture  its number.
  CudaGraph(int ordinal, const Device& device, CudaMemory& memory, unsigned long long capture,
            cudaGraphExec_t executable)
      : ordinal_(ordinal), device_(device), memory_(memory), capture_(capture), executable_(executable) {}
  ~CudaGraph() override {
    if (is_fork_of_user()) return;
    try {
      const DeviceGuard guard(ordinal_, device_);
      if (last_ != nullptr) memory_.free_after(capture_, last_);
      LOCKSTEP_CUDA_LOG(cudaGraphExecDestroy(executable_));
    } catch (const Error&) {  // it is lost with the device
    }
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch(backend::StreamHandle stream) override {
    const DeviceGuard guard(ordinal_, device_);
    LOCKSTEP_CUDA_CHECK(cudaGraphLaunch(executable_, native(stream)), device_, "Launching a step");
    last_ = native(stream);
  }

  void free_after(backend::GraphBackend& hardware, backend::StreamHandle stream) noexcept override {
    static_cast<CudaGraphs&>(hardware).free_after(capture_, stream);
  }

 private:
  const int ordinal_;
  const Device device_;
  CudaMemory& memory_;
  const unsigned long long capture_;
  const cudaGraphExec_t executable_;
  cudaStream_t last_ = nullptr;  // on which it was launched
};

}  // namespace

void CudaGraphs::load() {
  const DeviceGuard guard(ordinal_, device_);
  load_kernels();
}

void CudaGraphs::free_after(unsigned long long capture, backend::StreamHandle stream) noexcept try {
  const DeviceGuard guard(ordinal_, device_);
  memory_.free_after(capture, native(stream));
} catch (const Error&) {  // it is lost with the device
}

void CudaGraphs::begin_capture(backend::StreamHandle stream) {
  load();
  const DeviceGuard guard(ordinal_, device_);
  LOCKSTEP_CUDA_CHECK(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), device_,
                      kOperation);
  PrivateStreams::instance().note_capture(native(stream));
}

std::unique_ptr<backend::Graph> CudaGraphs::end_capture(backend::StreamHandle stream) {
  const DeviceGuard guard(ordinal_, device_);
  const unsigned long long capture = capture_of(native(stream), device_).id;
  cudaGraph_t graph = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaStreamEndCapture(native(stream), &graph), device_, kOperation);
  cudaGraphExec_t executable = nullptr;
  const CallResult made = LOCKSTEP_CUDA_CALL(cudaGraphInstantiate(&executable, graph, 0));
  LOCKSTEP_CUDA_LOG(cudaGraphDestroy(graph));
  made.require(device_, kOperation);
  return std::make_unique<CudaGraph>(ordinal_, device_, memory_, capture, executable);
}

void CudaGraphs::drop_capture(backend::StreamHandle stream) noexcept try {
  const DeviceGuard guard(ordinal_, device_);
  if (!is_in_capture(native(stream))) return;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(native(stream), &graph) != cudaSuccess) cudaGetLastError();  // it was broken
  if (graph != nullptr) LOCKSTEP_CUDA_LOG(cudaGraphDestroy(graph));
} catch (const Error&) {  // it is lost with the device
}

void CudaGraphs::keep(backend::StreamHandle stream, std::shared_ptr<const void> object) {
  const DeviceGuard guard(ordinal_, device_);
  keep_with(capture_of(native(stream), device_), std::move(object), device_);
}

}  // namespace lockstep::cuda

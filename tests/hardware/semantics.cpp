#include <cstddef>
#include <string>
#include <vector>

#include "spinner.hpp"

namespace lockstep::hardware {
namespace {

// An engine's call has failed, and the engine has not asked for the error.
void after_an_engines_error(Section& section) {
  Tensor tensor = Tensor::ones({1000}, DType::f32, kGpu);
  current_stream(kGpu).synchronize();
  void* memory = nullptr;
  static_cast<void>(cudaMalloc(&memory, std::size_t{1} << 60));
  std::string result = "ok";
  try {
    tensor.fill_(2);
  } catch (const std::exception& error) {
    result = std::string("THROWS although the kernel was launched: ") + error.what();
  }
  static_cast<void>(cudaGetLastError());
  section.finding("a kernel after an engine's failed call", result);
}

void new_event(Section& section) {
  const Stream busy(kGpu);
  Spinner spinner(busy);
  {
    const Event old(kGpu);
    old.record(busy);
  }
  const Event fresh(kGpu);
  section.finding("a new event", fresh.is_complete() ? "ok" : "NO: it carries a former owner's record");
}

void null_stream(Section& section) {
  const StreamScope scope(Stream::borrow(nullptr, kGpu));
  const Tensor threes = Tensor::full({1000}, 3.0f, DType::f32, kGpu);
  section.finding("the borrowed null stream",
                  (threes + threes).to_vector<float>()[999] == 6 ? "ok" : "WRONG");
}

// A tensor that is older than a capture ends in it, and one that is made in it lives on.
void capture(Section& section) {
  const Stream stream(kGpu);
  const StreamScope scope(stream);
  const Tensor operand = Tensor::ones({1000}, DType::f32, kGpu);
  Tensor before = operand.clone(), kept;
  stream.synchronize();
  const cudaStream_t native = cuda::native_stream(stream);
  check(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  std::string inside = "ok";
  try {
    kept = operand + operand;
    before = Tensor();
  } catch (const std::exception& error) {
    inside = std::string("THROWS: ") + error.what();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(native, &graph);
  section.finding("a capture that frees an older tensor", inside);
  section.finding("the end of that capture", cudaGetErrorName(ended));
  cudaGraphExec_t program = nullptr;
  if (graph != nullptr && cudaGraphInstantiate(&program, graph, 0) == cudaSuccess) {
    section.finding("its first launch", cudaGetErrorName(cudaGraphLaunch(program, native)));
    section.finding("its second launch, the first one's result alive",
                    cudaGetErrorName(cudaGraphLaunch(program, native)));
    static_cast<void>(cudaStreamSynchronize(native));
    cudaGraphExecDestroy(program);
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  static_cast<void>(cudaGetLastError());
}

}  // namespace

// What the rules of CUDA leave to the driver.
void semantics(Section& section) {
  after_an_engines_error(section);
  new_event(section);
  null_stream(section);
  capture(section);
}

}  // namespace lockstep::hardware

// Stream capture and graphs.
#include <array>
#include <atomic>

#include "check.hpp"
#include "kernels.hpp"

TEST_CASE("graphs") {
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  int* pinned = nullptr;
  OK(cudaMallocHost(&pinned, bytes));
  cudaStream_t stream, side;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  cudaEvent_t fork, join;
  OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  int* second = nullptr;
  OK(cudaMalloc(&second, bytes));
  static std::atomic<int> calls{0};

  OK(cudaMemset(data, 0, bytes));
  OK(cudaDeviceSynchronize());
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(stream, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  add<<<4, 256, 0, stream>>>(data, count, 1);
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaMemsetAsync(second, 0, bytes, side));
  add<<<4, 256, 0, side>>>(second, count, 5);
  OK(cudaEventRecord(join, side));
  add<<<4, 256, 0, stream>>>(data, count, 10);
  OK(cudaStreamWaitEvent(stream, join, 0));
  OK(cudaMemcpyAsync(pinned, data, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaLaunchHostFunc(
      stream, [](void*) { ++calls; }, nullptr));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 0, edges = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  CHECK((nodes == 6 && edges == 6));
  CHECK((calls == 0 && all(fetch(data, count), 0)));  // nothing ran
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 1; round <= 3; ++round) {
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK((pinned[0] == 11 * round && calls == round && all(fetch(second, count), 5)));
  }
  OK(cudaGraphLaunch(exec, stream));  // launches of one graph follow each other
  OK(cudaGraphLaunch(exec, side));
  OK(cudaDeviceSynchronize());
  CHECK(pinned[5] == 55);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));

  // Forbidden calls invalidate.
  auto invalid = [&](const char* what, auto&& call, cudaError_t wanted) {
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<4, 256, 0, stream>>>(data, count, 1);
    const cudaError_t got = call();
    INFO(what);
    CHECK(got == wanted);
    (void)cudaGetLastError();
    add<<<4, 256, 0, stream>>>(data, count, 1);
    EXPECT(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t none;
    EXPECT(cudaStreamEndCapture(stream, &none), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
  };
  void* pointer = nullptr;
  invalid(
      "cudaStreamSynchronize", [&] { return cudaStreamSynchronize(stream); },
      cudaErrorStreamCaptureUnsupported);
  invalid(
      "cudaStreamQuery", [&] { return cudaStreamQuery(stream); }, cudaErrorStreamCaptureUnsupported);
  invalid(
      "cudaDeviceSynchronize", [&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported);
  invalid(
      "cudaMalloc", [&] { return cudaMalloc(&pointer, 4); }, cudaErrorStreamCaptureUnsupported);
  invalid(
      "cudaMemcpy", [&] { return cudaMemcpy(pinned, data, 4, cudaMemcpyDeviceToHost); },
      cudaErrorStreamCaptureUnsupported);
  cudaEvent_t outside;
  OK(cudaEventCreate(&outside));
  OK(cudaEventRecord(outside, side));
  invalid(
      "cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(stream, outside, 0); },
      cudaErrorStreamCaptureIsolation);
  OK(cudaEventDestroy(outside));
  // Relaxed captures allow them.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaMalloc(&pointer, 4));
  OK(cudaFree(pointer));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
  // Work not joined back.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(side, fork, 0));
  add<<<4, 256, 0, side>>>(data, count, 1);
  EXPECT(cudaEventQuery(fork), cudaErrorCapturedEvent);
  EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(side, fork, 0));
  add<<<4, 256, 0, side>>>(data, count, 1);
  EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  (void)cudaGetLastError();
  // The legacy stream cannot take work while a blocking stream is captured.
  cudaStream_t blocking;
  OK(cudaStreamCreate(&blocking));
  OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  fill_async(data, 1, nullptr);
  EXPECT(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
  EXPECT(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  (void)cudaGetLastError();
  OK(cudaStreamDestroy(blocking));

  // Built by hand, with changed parameters, and as a child.
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t set, kernel;
  cudaMemsetParams set_parameters{};
  set_parameters.dst = data;
  set_parameters.elementSize = 4;
  set_parameters.width = count;
  set_parameters.height = 1;
  set_parameters.value = 1000;
  OK(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &set_parameters));
  int number = count, value = 3;
  void* arguments[] = {&data, &number, &value};
  cudaKernelNodeParams kernel_parameters{};
  kernel_parameters.func = reinterpret_cast<void*>(add);
  kernel_parameters.gridDim = dim3(4);
  kernel_parameters.blockDim = dim3(256);
  kernel_parameters.kernelParams = arguments;
  OK(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &kernel_parameters));
  cudaGraph_t parent;
  OK(cudaGraphCreate(&parent, 0));
  cudaGraphNode_t child, last;
  OK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
  value = 20;
  OK(cudaGraphAddKernelNode(&last, parent, &child, 1, &kernel_parameters));
  OK(cudaGraphInstantiate(&exec, parent, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(all(fetch(data, count), 1023));
  value = 40;
  OK(cudaGraphExecKernelNodeSetParams(exec, last, &kernel_parameters));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(all(fetch(data, count), 1043));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(parent));
  OK(cudaGraphDestroy(graph));
  OK(cudaEventDestroy(fork));
  OK(cudaEventDestroy(join));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(side));
  OK(cudaFree(data));
  OK(cudaFree(second));
  OK(cudaFreeHost(pinned));
  (void)cudaGetLastError();
}

static cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph, unsigned long long flags) {
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, flags));
  return exec;
}

TEST_CASE("graph-memory: a graph frees only what a graph has allocated") {
  const cudaStream_t first = make_stream();
  int* data = nullptr;
  OK(cudaMallocAsync(&data, bytes, first));
  OK(cudaStreamSynchronize(first));
  OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  EXPECT(cudaFreeAsync(data, first), cudaErrorInvalidValue);
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(first, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaFreeAsync(data, first));
  OK(cudaStreamSynchronize(first));
  (void)cudaGetLastError();
  OK(cudaStreamDestroy(first));
}

TEST_CASE("graph-memory: a graph is launched again when its memory is free") {
  const cudaStream_t first = make_stream();
  int* data = nullptr;
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  OK(cudaMallocAsync(&data, bytes, first));
  fill_async(data, 3, first);
  OK(cudaStreamEndCapture(first, &graph));
  const cudaGraphExec_t exec = instantiate(graph, 0);
  OK(cudaGraphLaunch(exec, first));
  EXPECT(cudaGraphLaunch(exec, first), cudaErrorInvalidValue);
  OK(cudaStreamSynchronize(first));
  CHECK(all(fetch(data, count), 3));
  OK(cudaFreeAsync(data, first));
  OK(cudaGraphLaunch(exec, first));
  OK(cudaFree(data));
  OK(cudaGraphLaunch(exec, first));
  OK(cudaFreeAsync(data, first));
  OK(cudaStreamSynchronize(first));
  OK(cudaGraphExecDestroy(exec));
  const cudaGraphExec_t freeing = instantiate(graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  OK(cudaGraphLaunch(freeing, first));
  OK(cudaGraphLaunch(freeing, first));
  OK(cudaFreeAsync(data, first));
  OK(cudaStreamSynchronize(first));
  OK(cudaGraphExecDestroy(freeing));
  OK(cudaGraphDestroy(graph));
  (void)cudaGetLastError();
  OK(cudaStreamDestroy(first));
}

TEST_CASE("a graph's user objects live as long as what was made of it, and its launches") {
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  static std::atomic<int> num_ended{0};
  num_ended = 0;
  cudaUserObject_t object;
  OK(cudaUserObjectCreate(
      &object, nullptr, [](void*) { ++num_ended; }, 1, cudaUserObjectNoDestructorSync));
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaStreamCaptureStatus status;
  cudaGraph_t graph;
  OK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  add<<<4, 256, 0, stream>>>(data, count, 1);
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  CHECK(num_ended == 0);
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaGraphExecDestroy(exec));
  CHECK(num_ended == 0);  // the launch waits for somebody who waits
  OK(cudaStreamSynchronize(stream));
  CHECK(num_ended == 1);

  // A capture that fails keeps nothing.
  OK(cudaUserObjectCreate(
      &object, nullptr, [](void*) { ++num_ended; }, 1, cudaUserObjectNoDestructorSync));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  EXPECT(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  unsigned long long id = 0;
  cudaGraph_t same = nullptr;
  OK(cudaStreamGetCaptureInfo(stream, &status, &id, &same, nullptr, nullptr, nullptr));
  CHECK(status == cudaStreamCaptureStatusInvalidated);
  CHECK(id == 0);
  CHECK(same == nullptr);
  EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  CHECK(num_ended == 2);
  OK(cudaFree(data));
  OK(cudaStreamDestroy(stream));
}

TEST_CASE("an update gives the executable graph the user objects of the new graph, and takes the old ones'") {
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* data = nullptr;
  OK(cudaMalloc(&data, bytes));
  static std::array<std::atomic<int>, 2> num_ended;
  std::array<cudaGraph_t, 2> graphs;
  for (std::size_t i = 0; i < 2; ++i) {
    num_ended[i] = 0;
    cudaUserObject_t object;
    OK(cudaUserObjectCreate(
        &object, &num_ended[i], [](void* ended) { ++*static_cast<std::atomic<int>*>(ended); }, 1,
        cudaUserObjectNoDestructorSync));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    add<<<4, 256, 0, stream>>>(data, count, static_cast<int>(i));
    OK(cudaStreamEndCapture(stream, &graphs[i]));
    OK(cudaGraphRetainUserObject(graphs[i], object, 1, cudaGraphUserObjectMove));
  }
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graphs[0], 0));
  OK(cudaGraphLaunch(exec, stream));
  cudaGraphExecUpdateResultInfo info;
  OK(cudaGraphExecUpdate(exec, graphs[1], &info));
  for (cudaGraph_t graph : graphs) OK(cudaGraphDestroy(graph));
  CHECK(num_ended[0] == 0);  // a launch from before the update has not run
  CHECK(num_ended[1] == 0);
  OK(cudaStreamSynchronize(stream));
  CHECK(num_ended[0] == 1);
  CHECK(num_ended[1] == 0);
  OK(cudaGraphExecDestroy(exec));
  CHECK(num_ended[1] == 1);
  OK(cudaFree(data));
  OK(cudaStreamDestroy(stream));
}

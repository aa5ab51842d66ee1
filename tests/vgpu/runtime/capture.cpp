// Stream capture.
#include <algorithm>

#include "runtime/graph.hpp"

namespace vgpu::rt {

namespace {

std::set<Node*> ancestors(const std::vector<Node*>& from) {
  std::set<Node*> seen;
  std::vector<Node*> stack = from;
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    stack.insert(stack.end(), node->before.begin(), node->before.end());
  }
  return seen;
}

void end_session(const std::shared_ptr<CaptureSession>& session) {
  session->ended = true;
  for (StreamObject* stream : session->streams) {
    stream->capture.reset();
    stream->capture_tail.clear();
  }
  session->graph.reset();  // events of the capture keep the session
  machine().captures.erase(session);
}

}  // namespace

cudaError_t capture_work(StreamObject& stream, Work work, int device) {
  CaptureSession& session = *stream.capture;
  if (session.invalid != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
  const cudaGraphNodeType type = node_type(work);
  Node* node = add_node(*session.graph, type, device, std::move(work), stream.capture_tail);
  if (auto* free = std::get_if<FreeWork>(&node->work)) (void)free;
  keep_kernel(*node);
  if (auto* copy = std::get_if<CopyWork>(&node->work); copy && copy->height == 1 && copy->depth == 1)
    node->copy_params =
        flat_parameters(reinterpret_cast<void*>(copy->to.address),
                        reinterpret_cast<void*>(copy->from.address), copy->width, cudaMemcpyDefault);
  if (auto* set = std::get_if<SetWork>(&node->work)) {
    node->set_params.dst = reinterpret_cast<void*>(set->address);
    node->set_params.pitch = set->pitch;
    node->set_params.value = set->value;
    node->set_params.elementSize = set->element;
    node->set_params.width = set->width / set->element;
    node->set_params.height = set->height;
  }
  stream.capture_tail = {node};
  return cudaSuccess;
}

void invalidate(CaptureSession& session, cudaError_t error, const std::string& why) {
  if (session.invalid != cudaSuccess) return;
  session.invalid = error;
  session.why = why;
  report("capture of " + session.origin->name() + " is invalidated: " + why);
}

cudaError_t check_unsafe(const char* name) {
  ThreadState& thread = thread_state();
  if (machine().captures.empty() || thread.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (const auto& session : machine().captures) {
    if (session->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool own = session->thread == thread.number;
    const bool global =
        session->mode == cudaStreamCaptureModeGlobal && thread.capture_mode == cudaStreamCaptureModeGlobal;
    if (!own && !global) continue;
    invalidate(*session, cudaErrorStreamCaptureUnsupported,
               std::string(name) + " is not permitted during a capture");
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t handle, cudaGraph_t graph, const cudaGraphNode_t* list,
                                          const cudaGraphEdgeData*, size_t count,
                                          cudaStreamCaptureMode mode) {
  return api("cudaStreamBeginCapture", plain, [&](Lock&, Call& call) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    call.info = stream->name();
    if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture) return cudaErrorIllegalState;
    auto session = std::make_shared<CaptureSession>();
    session->id = machine().next_graph_id++;
    session->mode = mode;
    session->origin = stream;
    session->streams.insert(stream);
    session->thread = thread_state().number;
    stream->capture_tail.clear();
    if (graph) {
      auto found = machine().graphs.find(graph);
      if (found == machine().graphs.end()) return cudaErrorInvalidValue;
      session->graph = found->second;
      session->to_existing_graph = true;
      if (cudaError_t error = dependencies(*session->graph, list, count, stream->capture_tail);
          error != cudaSuccess)
        return error;
    } else {
      session->graph = new_graph();
    }
    stream->capture = session;
    machine().captures.insert(session);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0, mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return api("cudaStreamEndCapture", plain, [&](Lock&, Call& call) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    call.info = stream->name();
    if (!graph) return cudaErrorInvalidValue;
    *graph = nullptr;
    std::shared_ptr<CaptureSession> session = stream->capture;
    if (!session) return cudaErrorIllegalState;
    if (session->origin != stream) {
      invalidate(*session, cudaErrorStreamCaptureUnmatched,
                 "cudaStreamEndCapture on a stream other than the one that began it");
      return cudaErrorStreamCaptureUnmatched;
    }
    if (session->mode != cudaStreamCaptureModeRelaxed && session->thread != thread_state().number)
      return cudaErrorStreamCaptureWrongThread;
    if (session->invalid != cudaSuccess) {
      if (!session->to_existing_graph) machine().graphs.erase(session->graph.get());
      end_session(session);
      return cudaErrorStreamCaptureInvalidated;
    }
    const std::set<Node*> joined = ancestors(stream->capture_tail);
    for (StreamObject* other : session->streams)
      for (Node* node : other->capture_tail)
        if (!joined.count(node)) {
          report("capture of " + stream->name() + ": " + other->name() +
                 " was not joined back (its last work: " + describe(node->work) + ")");
          if (!session->to_existing_graph) machine().graphs.erase(session->graph.get());
          end_session(session);
          return cudaErrorStreamCaptureUnjoined;
        }
    if (!session->to_existing_graph) machine().graphs[session->graph.get()] = session->graph;
    *graph = reinterpret_cast<cudaGraph_t>(session->graph.get());
    end_session(session);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return api("cudaStreamIsCapturing", plain, [&](Lock&, Call& call) {
    call.quiet = true;
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!status) return cudaErrorInvalidValue;
    if (stream->legacy)
      for (const auto& session : machine().captures)
        for (StreamObject* other : session->streams)
          if (other->device == stream->device && !(other->flags & cudaStreamNonBlocking))
            return cudaErrorStreamCaptureImplicit;
    *status = !stream->capture                          ? cudaStreamCaptureStatusNone
              : stream->capture->invalid != cudaSuccess ? cudaStreamCaptureStatusInvalidated
                                                        : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** list,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  return api("cudaStreamGetCaptureInfo", plain, [&](Lock&, Call& call) {
    call.quiet = true;
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!status) return cudaErrorInvalidValue;
    *status = !stream->capture                          ? cudaStreamCaptureStatusNone
              : stream->capture->invalid != cudaSuccess ? cudaStreamCaptureStatusInvalidated
                                                        : cudaStreamCaptureStatusActive;
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;  // the rest is as it was
    if (id) *id = stream->capture->id;
    if (graph) {
      *graph = reinterpret_cast<cudaGraph_t>(stream->capture->graph.get());
      machine().graphs[stream->capture->graph.get()] = stream->capture->graph;
    }
    if (list) *list = reinterpret_cast<const cudaGraphNode_t*>(stream->capture_tail.data());
    if (edges) *edges = nullptr;
    if (count) *count = stream->capture_tail.size();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* list,
                                                const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return api("cudaStreamUpdateCaptureDependencies", plain, [&](Lock&, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!stream->capture) return cudaErrorIllegalState;
    std::vector<Node*> nodes;
    if (cudaError_t error = dependencies(*stream->capture->graph, list, count, nodes); error != cudaSuccess)
      return error;
    if (flags == cudaStreamSetCaptureDependencies) stream->capture_tail.clear();
    for (Node* node : nodes)
      if (std::find(stream->capture_tail.begin(), stream->capture_tail.end(), node) ==
          stream->capture_tail.end())
        stream->capture_tail.push_back(node);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api("cudaThreadExchangeStreamCaptureMode", no_sticky, [&](Lock&, Call&) {
    if (!mode || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    std::swap(*mode, thread_state().capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t s, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(s ? s : cudaStreamPerThread, mode);
}

cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t* d,
                                               const cudaGraphEdgeData* e, size_t n,
                                               cudaStreamCaptureMode mode) {
  return cudaStreamBeginCaptureToGraph(s ? s : cudaStreamPerThread, g, d, e, n, mode);
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t s, cudaGraph_t* g) {
  return cudaStreamEndCapture(s ? s : cudaStreamPerThread, g);
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t s, cudaStreamCaptureStatus* v) {
  return cudaStreamIsCapturing(s ? s : cudaStreamPerThread, v);
}

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t s, cudaStreamCaptureStatus* v, unsigned long long* id,
                                          cudaGraph_t* g, const cudaGraphNode_t** d,
                                          const cudaGraphEdgeData** e, size_t* n) {
  return cudaStreamGetCaptureInfo(s ? s : cudaStreamPerThread, v, id, g, d, e, n);
}

cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t s, cudaGraphNode_t* d,
                                                     const cudaGraphEdgeData* e, size_t n, unsigned f) {
  return cudaStreamUpdateCaptureDependencies(s ? s : cudaStreamPerThread, d, e, n, f);
}
}

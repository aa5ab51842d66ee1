// Stream capture and graphs.
#include <algorithm>

#include "runtime/copies.hpp"
#include "runtime/launch.hpp"
#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

GraphData* find_graph(cudaGraph_t handle) {
  auto found = machine().graphs.find(handle);
  return found == machine().graphs.end() ? nullptr : found->second.get();
}
GraphExec* find_exec(cudaGraphExec_t handle) {
  auto found = machine().execs.find(handle);
  return found == machine().execs.end() ? nullptr : found->second.get();
}
cudaGraphNode_t handle_of(Node* node) { return reinterpret_cast<cudaGraphNode_t>(node); }
Node* find_node(cudaGraphNode_t handle) {
  // Nodes are found through their graphs, so that stale handles are refused.
  for (auto& [key, graph] : machine().graphs)
    for (auto& node : graph->nodes)
      if (node.get() == reinterpret_cast<Node*>(handle)) return node.get();
  for (auto& session : machine().captures)
    for (auto& node : session->graph->nodes)
      if (node.get() == reinterpret_cast<Node*>(handle)) return node.get();
  return nullptr;
}

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
  machine().captures.erase(session);
}

cudaError_t topological(const GraphData& graph, std::vector<Node*>& order) {
  std::map<Node*, std::size_t> missing;
  std::map<Node*, std::vector<Node*>> after;
  for (auto& node : graph.nodes) {
    missing[node.get()] = node->before.size();
    for (Node* before : node->before) after[before].push_back(node.get());
  }
  std::set<std::pair<std::uint64_t, Node*>> ready;
  for (auto& node : graph.nodes)
    if (node->before.empty()) ready.insert({node->id, node.get()});
  while (!ready.empty()) {
    Node* node = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(node);
    for (Node* next : after[node])
      if (--missing[next] == 0) ready.insert({next->id, next});
  }
  return order.size() == graph.nodes.size() ? cudaSuccess : cudaErrorInvalidValue;
}

std::shared_ptr<GraphData> new_graph() {
  auto graph = std::make_shared<GraphData>();
  graph->id = machine().next_graph_id++;
  return graph;
}

void refresh_arguments(Node& node) {
  node.argument_pointers.clear();
  for (auto& argument : node.arguments) node.argument_pointers.push_back(argument.data());
  node.kernel_params.kernelParams = node.argument_pointers.empty() ? nullptr : node.argument_pointers.data();
}

void keep_kernel(Node& node) {
  auto* work = std::get_if<KernelWork>(&node.work);
  if (!work) return;
  node.kernel_params.func = const_cast<void*>(work->kernel->host ? work->kernel->host : work->kernel);
  node.kernel_params.gridDim = dim3(work->grid.x, work->grid.y, work->grid.z);
  node.kernel_params.blockDim = dim3(work->block.x, work->block.y, work->block.z);
  node.kernel_params.sharedMemBytes = static_cast<unsigned>(work->shared);
  node.kernel_params.extra = nullptr;
  node.arguments.clear();
  const KernelInfo& info = *work->kernel->info;
  for (std::size_t index = 0; index < info.parameter_sizes.size(); ++index) {
    const char* at = reinterpret_cast<const char*>(work->parameters.data()) + info.parameter_offsets[index];
    node.arguments.emplace_back(at, at + info.parameter_sizes[index]);
  }
  refresh_arguments(node);
}

std::shared_ptr<GraphData> clone(const GraphData& source, std::map<const Node*, Node*>* mapping = nullptr) {
  auto copy = new_graph();
  std::map<const Node*, Node*> to;
  for (auto& node : source.nodes) {
    auto twin = std::make_unique<Node>(*node);
    twin->graph = copy.get();
    twin->origin = node.get();
    refresh_arguments(*twin);
    to[node.get()] = twin.get();
    copy->nodes.push_back(std::move(twin));
  }
  for (auto& node : copy->nodes)
    for (Node*& before : node->before) before = to[before];
  if (mapping) *mapping = to;
  return copy;
}

// Adds the graph's nodes, children expanded in place; returns the indices of its last nodes.
cudaError_t flatten(GraphExec& exec, const GraphData& graph, const std::vector<std::size_t>& start,
                    std::vector<std::size_t>& last) {
  std::vector<Node*> order;
  if (topological(graph, order) != cudaSuccess) return cudaErrorInvalidValue;
  std::map<const Node*, std::vector<std::size_t>> ends;
  std::set<const Node*> inner;
  for (Node* node : order)
    for (Node* before : node->before) inner.insert(before);
  for (Node* node : order) {
    std::vector<std::size_t> before;
    for (Node* earlier : node->before)
      before.insert(before.end(), ends[earlier].begin(), ends[earlier].end());
    if (node->before.empty()) before = start;
    if (auto* child = std::get_if<ChildWork>(&node->work)) {
      std::vector<std::size_t> inside;
      if (cudaError_t error = flatten(exec, *child->graph, before, inside); error != cudaSuccess)
        return error;
      if (inside.empty()) inside = before;
      ends[node] = inside;
    } else {
      ExecNode entry;
      entry.work = node->work;
      entry.device = node->device;
      entry.type = node->type;
      entry.before = before;
      entry.origin = node;
      entry.origin_id = node->id;
      entry.enabled = node->enabled;
      entry.lane = std::make_unique<Lane>();
      exec.nodes.push_back(std::move(entry));
      ends[node] = {exec.nodes.size() - 1};
    }
    if (!inner.count(node)) last.insert(last.end(), ends[node].begin(), ends[node].end());
  }
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* handle, cudaGraph_t graph_handle, unsigned long long flags) {
  Machine& m = machine();
  GraphData* graph = find_graph(graph_handle);
  if (!handle || !graph) return cudaErrorInvalidValue;
  if (flags & cudaGraphInstantiateFlagDeviceLaunch) return cudaErrorNotSupported;
  auto exec = std::make_unique<GraphExec>();
  exec->id = m.next_graph_id++;
  exec->graph_id = graph->id;
  exec->flags = flags;
  std::vector<std::size_t> last;
  if (cudaError_t error = flatten(*exec, *graph, {}, last); error != cudaSuccess) return error;
  for (std::size_t index = 0; index < exec->nodes.size(); ++index)
    initialise_lane(*exec->nodes[index].lane, exec->nodes[index].device,
                    format("graph %llu node %zu", static_cast<unsigned long long>(exec->id), index));
  *handle = reinterpret_cast<cudaGraphExec_t>(exec.get());
  m.execs[exec.get()] = std::move(exec);
  return cudaSuccess;
}

ExecNode* exec_node(GraphExec& exec, cudaGraphNode_t handle) {
  for (ExecNode& node : exec.nodes)
    if (node.origin == reinterpret_cast<const Node*>(handle)) return &node;
  return nullptr;
}

cudaError_t dependencies(GraphData& graph, const cudaGraphNode_t* list, std::size_t count,
                         std::vector<Node*>& before) {
  for (std::size_t index = 0; index < count; ++index) {
    Node* node = find_node(list[index]);
    if (!node || node->graph != &graph) return cudaErrorInvalidValue;
    if (std::find(before.begin(), before.end(), node) != before.end()) return cudaErrorInvalidValue;
    before.push_back(node);
  }
  return cudaSuccess;
}

template <class Build>
cudaError_t add(const char* name, cudaGraphNode_t* out, cudaGraph_t handle, const cudaGraphNode_t* list,
                std::size_t count, cudaGraphNodeType type, Build&& build) {
  return api(name, plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !out || (count && !list)) return cudaErrorInvalidValue;
    std::vector<Node*> before;
    if (cudaError_t error = dependencies(*graph, list, count, before); error != cudaSuccess) return error;
    Node scratch;
    if (cudaError_t error = build(scratch); error != cudaSuccess) return error;
    Node* node = add_node(*graph, type, thread_state().device, std::move(scratch.work), before);
    node->copy_params = scratch.copy_params;
    node->set_params = scratch.set_params;
    keep_kernel(*node);
    *out = handle_of(node);
    return cudaSuccess;
  });
}

cudaError_t kernel_work(Work& out, const cudaKernelNodeParams& p) {
  KernelHandle* kernel = find_kernel(p.func);
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  if (p.extra) return cudaErrorNotSupported;
  KernelWork work;
  if (cudaError_t error =
          make_kernel(work, *kernel, p.gridDim, p.blockDim, p.kernelParams, p.sharedMemBytes, false);
      error != cudaSuccess)
    return error;
  out = std::move(work);
  return cudaSuccess;
}

cudaError_t copy_work(Work& out, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                      const char* name) {
  CopyWork copy;
  if (cudaError_t error = make_copy(copy, to, bytes, bytes, from, bytes, bytes, {bytes}, kind, name);
      error != cudaSuccess)
    return error;
  out = std::move(copy);
  return cudaSuccess;
}

cudaError_t set_work(Work& out, const cudaMemsetParams& p, const char* name) {
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) return cudaErrorInvalidValue;
  SetWork set;
  if (cudaError_t error = make_set(set, p.dst, p.pitch, p.pitch * p.height, p.value, p.elementSize,
                                   {p.width * p.elementSize, std::max<std::size_t>(p.height, 1)}, name);
      error != cudaSuccess)
    return error;
  out = set;
  return cudaSuccess;
}

cudaMemcpy3DParms flat_parameters(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpy3DParms p{};
  p.dstPtr = {to, bytes, bytes, 1};
  p.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  p.extent = {bytes, 1, 1};
  p.kind = kind;
  return p;
}

template <class Build>
cudaError_t set_exec(const char* name, cudaGraphExec_t handle, cudaGraphNode_t node_handle, Build&& build) {
  return api(name, plain, [&](Lock&, Call&) {
    GraphExec* exec = find_exec(handle);
    if (!exec) return cudaErrorInvalidValue;
    ExecNode* node = exec_node(*exec, node_handle);
    if (!node) return cudaErrorInvalidValue;
    Work work;
    if (cudaError_t error = build(work); error != cudaSuccess) return error;
    if (work.index() != node->work.index()) return cudaErrorInvalidValue;
    node->work = std::move(work);
    return cudaSuccess;
  });
}

cudaError_t list_nodes(const std::vector<Node*>& nodes, cudaGraphNode_t* out, std::size_t* count) {
  if (!count) return cudaErrorInvalidValue;
  if (!out) {
    *count = nodes.size();
    return cudaSuccess;
  }
  for (std::size_t index = 0; index < *count; ++index)
    out[index] = index < nodes.size() ? handle_of(nodes[index]) : nullptr;
  *count = std::min(*count, nodes.size());
  return cudaSuccess;
}

}  // namespace

cudaGraphNodeType node_type(const Work& work) {
  if (std::holds_alternative<KernelWork>(work) || std::holds_alternative<std::shared_ptr<CustomWork>>(work))
    return cudaGraphNodeTypeKernel;
  if (std::holds_alternative<CopyWork>(work)) return cudaGraphNodeTypeMemcpy;
  if (std::holds_alternative<SetWork>(work)) return cudaGraphNodeTypeMemset;
  if (std::holds_alternative<HostWork>(work)) return cudaGraphNodeTypeHost;
  if (std::holds_alternative<RecordWork>(work)) return cudaGraphNodeTypeEventRecord;
  if (std::holds_alternative<WaitWork>(work)) return cudaGraphNodeTypeWaitEvent;
  if (std::holds_alternative<AllocateWork>(work)) return cudaGraphNodeTypeMemAlloc;
  if (std::holds_alternative<FreeWork>(work)) return cudaGraphNodeTypeMemFree;
  if (std::holds_alternative<ChildWork>(work)) return cudaGraphNodeTypeGraph;
  return cudaGraphNodeTypeEmpty;
}

Node* add_node(GraphData& graph, cudaGraphNodeType type, int device, Work work, std::vector<Node*> before) {
  auto node = std::make_unique<Node>();
  node->id = machine().next_graph_id++;
  node->graph = &graph;
  node->device = device;
  node->type = type;
  node->work = std::move(work);
  node->before = std::move(before);
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().get();
}

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

void launch_graph(Lock& lock, GraphExec& exec, StreamObject& stream) {
  OpPtr begin;
  submit(lock, stream, EmptyWork{"graph begin"}, &begin);
  if (exec.last_end) begin->deps.push_back(exec.last_end);
  std::vector<OpPtr> ops;
  std::vector<bool> leaf(exec.nodes.size(), true);
  for (ExecNode& node : exec.nodes) {
    OpPtr op = make_op(node.device, node.enabled ? node.work : Work(EmptyWork{"disabled node"}));
    for (std::size_t before : node.before) {
      op->deps.push_back(ops[before]);
      leaf[before] = false;
    }
    if (node.before.empty()) op->deps.push_back(begin);
    if (auto* wait = std::get_if<WaitWork>(&op->work); wait && wait->event && wait->event->record)
      op->deps.push_back(wait->event->record);
    append(*node.lane, op);
    if (auto* record = std::get_if<RecordWork>(&op->work)) record->event->record = op;
    ops.push_back(op);
  }
  OpPtr end = make_op(stream.device, EmptyWork{"graph end"});
  end->deps.push_back(begin);
  for (std::size_t index = 0; index < ops.size(); ++index)
    if (leaf[index]) end->deps.push_back(ops[index]);
  append(stream.lane, end);
  exec.last_end = end;
  drain_if_eager(lock);
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

// ---- capture

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
      end_session(session);
      return cudaErrorStreamCaptureInvalidated;
    }
    const std::set<Node*> joined = ancestors(stream->capture_tail);
    for (StreamObject* other : session->streams)
      for (Node* node : other->capture_tail)
        if (!joined.count(node)) {
          report("capture of " + stream->name() + ": " + other->name() +
                 " was not joined back (its last work: " + describe(node->work) + ")");
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
    if (!stream->capture) return cudaSuccess;
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

// ---- building

cudaError_t cudaGraphCreate(cudaGraph_t* handle, unsigned flags) {
  return api("cudaGraphCreate", plain, [&](Lock&, Call&) {
    if (!handle || flags) return cudaErrorInvalidValue;
    auto graph = new_graph();
    machine().graphs[graph.get()] = graph;
    *handle = reinterpret_cast<cudaGraph_t>(graph.get());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return api("cudaGraphDestroy", plain, [&](Lock&, Call&) {
    auto found = machine().graphs.find(handle);
    if (found == machine().graphs.end()) return cudaErrorInvalidValue;
    std::vector<std::pair<UserObject*, unsigned>> owned = found->second->user_objects;
    machine().graphs.erase(found);
    for (auto& [object, count] : owned) {
      object->references -= std::min(object->references, count);
      if (object->references == 0) object->destroy(object->pointer);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphClone(cudaGraph_t* handle, cudaGraph_t original) {
  return api("cudaGraphClone", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(original);
    if (!handle || !graph) return cudaErrorInvalidValue;
    auto copy = clone(*graph);
    machine().graphs[copy.get()] = copy;
    *handle = reinterpret_cast<cudaGraph_t>(copy.get());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* out, cudaGraphNode_t original, cudaGraph_t handle) {
  return api("cudaGraphNodeFindInClone", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!out || !graph) return cudaErrorInvalidValue;
    for (auto& node : graph->nodes)
      if (node->origin == reinterpret_cast<Node*>(original)) {
        *out = handle_of(node.get());
        return cudaSuccess;
      }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                   size_t count, const cudaKernelNodeParams* p) {
  return add("cudaGraphAddKernelNode", out, graph, list, count, cudaGraphNodeTypeKernel,
             [&](Node& node) { return p ? kernel_work(node.work, *p) : cudaErrorInvalidValue; });
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                   size_t count, const cudaMemcpy3DParms* p) {
  return add("cudaGraphAddMemcpyNode", out, graph, list, count, cudaGraphNodeTypeMemcpy, [&](Node& node) {
    if (!p) return cudaErrorInvalidValue;
    CopyWork copy;
    if (cudaError_t error = make_copy(copy, *p, "cudaGraphAddMemcpyNode"); error != cudaSuccess) return error;
    node.work = std::move(copy);
    node.copy_params = *p;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                     size_t count, void* to, const void* from, size_t bytes,
                                     cudaMemcpyKind kind) {
  return add("cudaGraphAddMemcpyNode1D", out, graph, list, count, cudaGraphNodeTypeMemcpy, [&](Node& node) {
    node.copy_params = flat_parameters(to, from, bytes, kind);
    return copy_work(node.work, to, from, bytes, kind, "cudaGraphAddMemcpyNode1D");
  });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                   size_t count, const cudaMemsetParams* p) {
  return add("cudaGraphAddMemsetNode", out, graph, list, count, cudaGraphNodeTypeMemset, [&](Node& node) {
    if (!p) return cudaErrorInvalidValue;
    node.set_params = *p;
    return set_work(node.work, *p, "cudaGraphAddMemsetNode");
  });
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                 size_t count, const cudaHostNodeParams* p) {
  return add("cudaGraphAddHostNode", out, graph, list, count, cudaGraphNodeTypeHost, [&](Node& node) {
    if (!p || !p->fn) return cudaErrorInvalidValue;
    node.work = HostWork{p->fn, nullptr, nullptr, p->userData};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                  size_t count) {
  return add("cudaGraphAddEmptyNode", out, graph, list, count, cudaGraphNodeTypeEmpty, [&](Node& node) {
    node.work = EmptyWork{};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                       size_t count, cudaGraph_t child) {
  return add("cudaGraphAddChildGraphNode", out, graph, list, count, cudaGraphNodeTypeGraph, [&](Node& node) {
    GraphData* inner = find_graph(child);
    if (!inner) return cudaErrorInvalidValue;
    node.work = ChildWork{clone(*inner)};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                        size_t count, cudaEvent_t event) {
  return add("cudaGraphAddEventRecordNode", out, graph, list, count, cudaGraphNodeTypeEventRecord,
             [&](Node& node) {
               auto found = machine().events.find(event);
               if (found == machine().events.end()) return cudaErrorInvalidResourceHandle;
               node.work = RecordWork{found->second};
               return cudaSuccess;
             });
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* list,
                                      size_t count, cudaEvent_t event) {
  return add("cudaGraphAddEventWaitNode", out, graph, list, count, cudaGraphNodeTypeWaitEvent,
             [&](Node& node) {
               auto found = machine().events.find(event);
               if (found == machine().events.end()) return cudaErrorInvalidResourceHandle;
               node.work = WaitWork{found->second};
               return cudaSuccess;
             });
}

// ---- looking at graphs

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t handle, cudaKernelNodeParams* p) {
  return api("cudaGraphKernelNodeGetParams", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !p || !std::holds_alternative<KernelWork>(node->work)) return cudaErrorInvalidValue;
    *p = node->kernel_params;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t handle, const cudaKernelNodeParams* p) {
  return api("cudaGraphKernelNodeSetParams", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !p || !std::holds_alternative<KernelWork>(node->work)) return cudaErrorInvalidValue;
    Work work;
    if (cudaError_t error = kernel_work(work, *p); error != cudaSuccess) return error;
    node->work = std::move(work);
    keep_kernel(*node);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t handle, cudaMemcpy3DParms* p) {
  return api("cudaGraphMemcpyNodeGetParams", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !p || node->type != cudaGraphNodeTypeMemcpy) return cudaErrorInvalidValue;
    *p = node->copy_params;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t handle, cudaMemsetParams* p) {
  return api("cudaGraphMemsetNodeGetParams", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !p || node->type != cudaGraphNodeTypeMemset) return cudaErrorInvalidValue;
    *p = node->set_params;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t handle, const cudaMemsetParams* p) {
  return api("cudaGraphMemsetNodeSetParams", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !p || node->type != cudaGraphNodeTypeMemset) return cudaErrorInvalidValue;
    node->set_params = *p;
    return set_work(node->work, *p, "cudaGraphMemsetNodeSetParams");
  });
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t handle, void* to, const void* from, size_t bytes,
                                           cudaMemcpyKind kind) {
  return api("cudaGraphMemcpyNodeSetParams1D", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || node->type != cudaGraphNodeTypeMemcpy) return cudaErrorInvalidValue;
    node->copy_params = flat_parameters(to, from, bytes, kind);
    return copy_work(node->work, to, from, bytes, kind, "cudaGraphMemcpyNodeSetParams1D");
  });
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t handle, cudaHostNodeParams* p) {
  return api("cudaGraphHostNodeGetParams", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !p || node->type != cudaGraphNodeTypeHost) return cudaErrorInvalidValue;
    const auto& work = std::get<HostWork>(node->work);
    *p = {work.function, work.data};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t handle, const cudaHostNodeParams* p) {
  return api("cudaGraphHostNodeSetParams", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !p || !p->fn || node->type != cudaGraphNodeTypeHost) return cudaErrorInvalidValue;
    node->work = HostWork{p->fn, nullptr, nullptr, p->userData};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t handle, cudaGraph_t* out) {
  return api("cudaGraphChildGraphNodeGetGraph", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !out || node->type != cudaGraphNodeTypeGraph) return cudaErrorInvalidValue;
    *out = reinterpret_cast<cudaGraph_t>(std::get<ChildWork>(node->work).graph.get());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  return api("cudaGraphNodeGetType", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node || !type) return cudaErrorInvalidValue;
    *type = node->type;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* out, size_t* count) {
  return api("cudaGraphGetNodes", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph) return cudaErrorInvalidValue;
    std::vector<Node*> nodes;
    for (auto& node : graph->nodes) nodes.push_back(node.get());
    return list_nodes(nodes, out, count);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* out, size_t* count) {
  return api("cudaGraphGetRootNodes", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph) return cudaErrorInvalidValue;
    std::vector<Node*> nodes;
    for (auto& node : graph->nodes)
      if (node->before.empty()) nodes.push_back(node.get());
    return list_nodes(nodes, out, count);
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, size_t* count) {
  return api("cudaGraphGetEdges", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !count || (!from != !to)) return cudaErrorInvalidValue;
    std::vector<std::pair<Node*, Node*>> edges;
    for (auto& node : graph->nodes)
      for (Node* before : node->before) edges.push_back({before, node.get()});
    if (from)
      for (std::size_t index = 0; index < *count; ++index) {
        const bool in = index < edges.size();
        from[index] = in ? handle_of(edges[index].first) : nullptr;
        to[index] = in ? handle_of(edges[index].second) : nullptr;
        if (data) data[index] = cudaGraphEdgeData{};
      }
    *count = from ? std::min(*count, edges.size()) : edges.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t handle, cudaGraphNode_t* out, cudaGraphEdgeData*,
                                         size_t* count) {
  return api("cudaGraphNodeGetDependencies", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    return node ? list_nodes(node->before, out, count) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t handle, cudaGraphNode_t* out, cudaGraphEdgeData*,
                                           size_t* count) {
  return api("cudaGraphNodeGetDependentNodes", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node) return cudaErrorInvalidValue;
    std::vector<Node*> nodes;
    for (auto& other : node->graph->nodes)
      if (std::find(other->before.begin(), other->before.end(), node) != other->before.end())
        nodes.push_back(other.get());
    return list_nodes(nodes, out, count);
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t handle, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  return api("cudaGraphAddDependencies", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph) return cudaErrorInvalidValue;
    for (std::size_t index = 0; index < count; ++index) {
      Node *first = find_node(from[index]), *second = find_node(to[index]);
      if (!first || !second || first == second || first->graph != graph || second->graph != graph)
        return cudaErrorInvalidValue;
      if (std::find(second->before.begin(), second->before.end(), first) != second->before.end())
        return cudaErrorInvalidValue;
      second->before.push_back(first);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t handle, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  return api("cudaGraphRemoveDependencies", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph) return cudaErrorInvalidValue;
    for (std::size_t index = 0; index < count; ++index) {
      Node *first = find_node(from[index]), *second = find_node(to[index]);
      if (!first || !second || std::erase(second->before, first) == 0) return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle) {
  return api("cudaGraphDestroyNode", plain, [&](Lock&, Call&) {
    Node* node = find_node(handle);
    if (!node) return cudaErrorInvalidValue;
    GraphData& graph = *node->graph;
    for (auto& other : graph.nodes) std::erase(other->before, node);
    std::erase_if(graph.nodes, [&](auto& own) { return own.get() == node; });
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t handle, const char* path, unsigned) {
  return api("cudaGraphDebugDotPrint", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !path) return cudaErrorInvalidValue;
    FILE* file = std::fopen(path, "we");
    if (!file) return cudaErrorOperatingSystem;
    std::fprintf(file, "digraph graph_%llu {\n", static_cast<unsigned long long>(graph->id));
    for (auto& node : graph->nodes) {
      std::fprintf(file, "  n%llu [label=\"%s\"];\n", static_cast<unsigned long long>(node->id),
                   describe(node->work).c_str());
      for (Node* before : node->before)
        std::fprintf(file, "  n%llu -> n%llu;\n", static_cast<unsigned long long>(before->id),
                     static_cast<unsigned long long>(node->id));
    }
    std::fprintf(file, "}\n");
    std::fclose(file);
    return cudaSuccess;
  });
}

// ---- executable graphs

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return api("cudaGraphInstantiate", plain, [&](Lock&, Call&) { return instantiate(exec, graph, flags); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* p) {
  return api("cudaGraphInstantiate", plain, [&](Lock&, Call&) {
    if (!p) return cudaErrorInvalidValue;
    const cudaError_t error = instantiate(exec, graph, p->flags);
    p->errNode_out = nullptr;
    p->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
    return error;
  });
}
cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams* p) {
  return cudaGraphInstantiateWithParams(exec, graph, p);
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t handle, unsigned long long* flags) {
  return api("cudaGraphExecGetFlags", plain, [&](Lock&, Call&) {
    GraphExec* exec = find_exec(handle);
    if (!exec || !flags) return cudaErrorInvalidValue;
    *flags = exec->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return api("cudaGraphExecDestroy", no_sticky, [&](Lock&, Call&) {
    auto found = machine().execs.find(handle);
    if (found == machine().execs.end()) return cudaErrorInvalidValue;
    found->second->destroyed = true;
    (void)found->second.release();  // its lanes may still hold operations
    machine().execs.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return api("cudaGraphLaunch", plain, [&](Lock& lock, Call& call) {
    GraphExec* exec = find_exec(handle);
    StreamObject* stream = resolve_stream(stream_handle, thread_state().device);
    if (!exec || !stream) return exec ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    call.info = format("graph %llu of %zu nodes, %s", static_cast<unsigned long long>(exec->id),
                       exec->nodes.size(), stream->name().c_str());
    if (stream->capture) {
      // The launch becomes part of the graph being captured.
      if (stream->capture->invalid != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
      std::vector<Node*> nodes, last;
      std::vector<bool> leaf(exec->nodes.size(), true);
      for (ExecNode& node : exec->nodes) {
        std::vector<Node*> before;
        for (std::size_t index : node.before) {
          before.push_back(nodes[index]);
          leaf[index] = false;
        }
        if (node.before.empty()) before = stream->capture_tail;
        nodes.push_back(add_node(*stream->capture->graph, node.type, node.device, node.work, before));
        keep_kernel(*nodes.back());
      }
      for (std::size_t index = 0; index < nodes.size(); ++index)
        if (leaf[index]) last.push_back(nodes[index]);
      if (!last.empty()) stream->capture_tail = last;
      return cudaSuccess;
    }
    for (ExecNode& node : exec->nodes)
      if (machine().devices[node.device]->sticky != cudaSuccess)
        return machine().devices[node.device]->sticky;
    launch_graph(lock, *exec, *stream);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphLaunch(exec, stream ? stream : cudaStreamPerThread);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream) {
  return api("cudaGraphUpload", plain, [&](Lock&, Call&) {
    if (!find_exec(handle)) return cudaErrorInvalidValue;
    return resolve_stream(stream, thread_state().device) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}
cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphUpload(exec, stream);
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* p) {
  return set_exec("cudaGraphExecKernelNodeSetParams", exec, node,
                  [&](Work& work) { return p ? kernel_work(work, *p) : cudaErrorInvalidValue; });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes, cudaMemcpyKind kind) {
  return set_exec("cudaGraphExecMemcpyNodeSetParams1D", exec, node, [&](Work& work) {
    return copy_work(work, to, from, bytes, kind, "cudaGraphExecMemcpyNodeSetParams1D");
  });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* p) {
  return set_exec("cudaGraphExecMemcpyNodeSetParams", exec, node, [&](Work& work) {
    if (!p) return cudaErrorInvalidValue;
    CopyWork copy;
    if (cudaError_t error = make_copy(copy, *p, "cudaGraphExecMemcpyNodeSetParams"); error != cudaSuccess)
      return error;
    work = std::move(copy);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* p) {
  return set_exec("cudaGraphExecMemsetNodeSetParams", exec, node, [&](Work& work) {
    return p ? set_work(work, *p, "cudaGraphExecMemsetNodeSetParams") : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* p) {
  return set_exec("cudaGraphExecHostNodeSetParams", exec, node, [&](Work& work) {
    if (!p || !p->fn) return cudaErrorInvalidValue;
    work = HostWork{p->fn, nullptr, nullptr, p->userData};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t handle, cudaGraphNode_t node_handle, unsigned enabled) {
  return api("cudaGraphNodeSetEnabled", plain, [&](Lock&, Call&) {
    GraphExec* exec = find_exec(handle);
    ExecNode* node = exec ? exec_node(*exec, node_handle) : nullptr;
    if (!node || (node->type != cudaGraphNodeTypeKernel && node->type != cudaGraphNodeTypeMemcpy &&
                  node->type != cudaGraphNodeTypeMemset))
      return cudaErrorInvalidValue;
    node->enabled = enabled != 0;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t handle, cudaGraphNode_t node_handle, unsigned* enabled) {
  return api("cudaGraphNodeGetEnabled", plain, [&](Lock&, Call&) {
    GraphExec* exec = find_exec(handle);
    ExecNode* node = exec ? exec_node(*exec, node_handle) : nullptr;
    if (!node || !enabled) return cudaErrorInvalidValue;
    *enabled = node->enabled;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t graph_handle,
                                cudaGraphExecUpdateResultInfo* info) {
  return api("cudaGraphExecUpdate", plain, [&](Lock&, Call&) {
    GraphExec* exec = find_exec(handle);
    GraphData* graph = find_graph(graph_handle);
    if (!exec || !graph || !info) return cudaErrorInvalidValue;
    *info = {};
    info->result = cudaGraphExecUpdateSuccess;
    GraphExec fresh;
    std::vector<std::size_t> last;
    if (cudaError_t error = flatten(fresh, *graph, {}, last); error != cudaSuccess) return error;
    auto fail = [&](cudaGraphExecUpdateResult result) {
      info->result = result;
      return cudaErrorGraphExecUpdateFailure;
    };
    if (fresh.nodes.size() != exec->nodes.size()) return fail(cudaGraphExecUpdateErrorTopologyChanged);
    for (std::size_t index = 0; index < fresh.nodes.size(); ++index) {
      if (fresh.nodes[index].type != exec->nodes[index].type)
        return fail(cudaGraphExecUpdateErrorNodeTypeChanged);
      if (fresh.nodes[index].before != exec->nodes[index].before ||
          fresh.nodes[index].device != exec->nodes[index].device)
        return fail(cudaGraphExecUpdateErrorTopologyChanged);
    }
    for (std::size_t index = 0; index < fresh.nodes.size(); ++index) {
      exec->nodes[index].work = fresh.nodes[index].work;
      exec->nodes[index].origin = fresh.nodes[index].origin;
    }
    return cudaSuccess;
  });
}

// ---- user objects

cudaError_t cudaUserObjectCreate(cudaUserObject_t* out, void* pointer, cudaHostFn_t destroy,
                                 unsigned references, unsigned flags) {
  return api("cudaUserObjectCreate", plain, [&](Lock&, Call&) {
    if (!out || !destroy || references == 0 || flags != cudaUserObjectNoDestructorSync)
      return cudaErrorInvalidValue;
    *out = reinterpret_cast<cudaUserObject_t>(new UserObject{pointer, destroy, references});
    return cudaSuccess;
  });
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t handle, unsigned count) {
  return api("cudaUserObjectRetain", plain, [&](Lock&, Call&) {
    if (!handle || !count) return cudaErrorInvalidValue;
    reinterpret_cast<UserObject*>(handle)->references += count;
    return cudaSuccess;
  });
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned count) {
  return api("cudaUserObjectRelease", plain, [&](Lock&, Call&) {
    auto* object = reinterpret_cast<UserObject*>(handle);
    if (!object || !count || count > object->references) return cudaErrorInvalidValue;
    object->references -= count;
    if (object->references == 0) object->destroy(object->pointer);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t handle, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return api("cudaGraphRetainUserObject", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !object || !count) return cudaErrorInvalidValue;
    auto* user = reinterpret_cast<UserObject*>(object);
    if (!(flags & cudaGraphUserObjectMove)) user->references += count;
    graph->user_objects.push_back({user, count});
    return cudaSuccess;
  });
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t handle, cudaUserObject_t object, unsigned count) {
  return api("cudaGraphReleaseUserObject", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !object) return cudaErrorInvalidValue;
    auto* user = reinterpret_cast<UserObject*>(object);
    for (auto& [owned, held] : graph->user_objects)
      if (owned == user && held >= count) {
        held -= count;
        user->references -= std::min(user->references, count);
        if (user->references == 0) user->destroy(user->pointer);
        return cudaSuccess;
      }
    return cudaErrorInvalidValue;
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

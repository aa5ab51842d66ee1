// The nodes of graphs: adding them, their parameters.
#include <algorithm>

#include "runtime/copies.hpp"
#include "runtime/graph.hpp"
#include "runtime/launch.hpp"

namespace vgpu::rt {

namespace {

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

}  // namespace

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

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

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
}

// Executable graphs.
#include <algorithm>
#include <set>

#include "runtime/copies.hpp"
#include "runtime/graph.hpp"

namespace vgpu::rt {

namespace {

// Adds the graph's nodes, children expanded in place; returns the indices of its last nodes.
cudaError_t flatten(GraphExec& exec, const GraphData& graph, const std::vector<std::size_t>& start,
                    std::vector<std::size_t>& last) {
  std::vector<Node*> order;
  if (topological(graph, order) != cudaSuccess) return cudaErrorInvalidValue;
  exec.user_objects->add(graph.user_objects);
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

// What the graph allocates and does not free is the program's until it frees it: only then may it be launched
// again.
cudaError_t take_memory(GraphExec& exec) {
  std::set<const Allocation*> freed;
  for (const ExecNode& node : exec.nodes)
    if (auto* free = std::get_if<FreeWork>(&node.work)) {
      freed.insert(free->allocation);
      free->allocation->out = false;
    }
  for (const ExecNode& node : exec.nodes) {
    auto* allocate = std::get_if<AllocateWork>(&node.work);
    if (!allocate || freed.count(allocate->allocation)) continue;
    Allocation& allocation = *allocate->allocation;
    if (machine().config.strict.graph_memory && allocation.out &&
        !(exec.flags & cudaGraphInstantiateFlagAutoFreeOnLaunch)) {
      report(format(
          "cudaGraphLaunch: allocation #%llu of %zu bytes, from the graph's last launch, is not freed; free "
          "it first, or instantiate with cudaGraphInstantiateFlagAutoFreeOnLaunch",
          static_cast<unsigned long long>(allocation.id), allocation.bytes));
      return cudaErrorInvalidValue;
    }
    allocation.out = true;
    allocation.free_queued = false;  // of the last launch's
  }
  return cudaSuccess;
}

}  // namespace

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
  end->keeps = exec.user_objects;
  append(stream.lane, end);
  exec.last_end = end;
  drain_if_eager(lock);
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

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
    // Its lanes may still hold operations, which have the work.
    for (ExecNode& node : found->second->nodes) node.work = EmptyWork{};
    found->second->user_objects.reset();
    (void)found->second.release();
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
      stream->capture->graph->user_objects.add(*exec->user_objects);
      return cudaSuccess;
    }
    for (ExecNode& node : exec->nodes)
      if (machine().devices[node.device]->sticky != cudaSuccess)
        return machine().devices[node.device]->sticky;
    if (cudaError_t error = take_memory(*exec); error != cudaSuccess) return error;
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
    exec->user_objects = std::move(fresh.user_objects);  // launches before keep the old ones
    return cudaSuccess;
  });
}
}

// Graphs: making, copying and looking at them.
#include "runtime/graph.hpp"

#include <algorithm>

namespace vgpu::rt {

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

namespace {

template <class Nodes>
bool has_work(const Nodes& nodes, const std::function<bool(const CustomWork&)>& is_held) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& entry) {
    const Work* work;
    if constexpr (std::is_same_v<typename Nodes::value_type, ExecNode>)
      work = &entry.work;
    else
      work = &entry->work;
    if (const auto* child = std::get_if<ChildWork>(work)) return has_work(child->graph->nodes, is_held);
    const auto* custom = std::get_if<std::shared_ptr<CustomWork>>(work);
    return custom && is_held(**custom);
  });
}

}  // namespace

std::string graphs_with(const std::function<bool(const CustomWork&)>& is_held) {
  std::set<std::string> names;
  auto number = [](std::uint64_t id) { return std::to_string(id); };
  for (const auto& [handle, graph] : machine().graphs)
    if (has_work(graph->nodes, is_held)) names.insert("graph " + number(graph->id));
  for (const auto& [handle, exec] : machine().execs)
    if (has_work(exec->nodes, is_held))
      names.insert("executable graph " + number(exec->id) + " (of graph " + number(exec->graph_id) + ")");
  for (const auto& session : machine().captures)
    if (has_work(session->graph->nodes, is_held)) names.insert("the capture of " + session->origin->name());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::shared_ptr<GraphData> new_graph() {
  auto graph = std::make_shared<GraphData>();
  graph->id = machine().next_graph_id++;
  return graph;
}

namespace {

void refresh_arguments(Node& node) {
  node.argument_pointers.clear();
  for (auto& argument : node.arguments) node.argument_pointers.push_back(argument.data());
  node.kernel_params.kernelParams = node.argument_pointers.empty() ? nullptr : node.argument_pointers.data();
}

}  // namespace

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

std::shared_ptr<GraphData> clone(const GraphData& source, std::map<const Node*, Node*>* mapping) {
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
  copy->user_objects.add(source.user_objects);
  if (mapping) *mapping = to;
  return copy;
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

namespace {

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

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

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
    machine().graphs.erase(found);
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
}

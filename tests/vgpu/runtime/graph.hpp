// Graphs and their nodes, for what works on them.
#pragma once

#include <map>

#include "runtime/state.hpp"

namespace vgpu::rt {

GraphData* find_graph(cudaGraph_t handle);
GraphExec* find_exec(cudaGraphExec_t handle);
Node* find_node(cudaGraphNode_t handle);
cudaGraphNode_t handle_of(Node* node);
std::shared_ptr<GraphData> new_graph();
std::shared_ptr<GraphData> clone(const GraphData& source, std::map<const Node*, Node*>* mapping = nullptr);
// The nodes in an order that their dependencies permit; fails where there is a cycle.
cudaError_t topological(const GraphData& graph, std::vector<Node*>& order);
// The nodes behind handles that a new node depends on.
cudaError_t dependencies(GraphData& graph, const cudaGraphNode_t* list, std::size_t count,
                         std::vector<Node*>& before);
// Copies a kernel's arguments to where cudaGraphKernelNodeGetParams finds them.
void keep_kernel(Node& node);

cudaError_t kernel_work(Work& out, const cudaKernelNodeParams& p);
cudaError_t copy_work(Work& out, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                      const char* name);
cudaError_t set_work(Work& out, const cudaMemsetParams& p, const char* name);
cudaMemcpy3DParms flat_parameters(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);

}  // namespace vgpu::rt

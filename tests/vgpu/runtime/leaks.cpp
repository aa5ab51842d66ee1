// What is left at the program's end.
#include <algorithm>

#include "runtime/state.hpp"

namespace vgpu::rt {

std::string leak_report(Machine& m) {
  std::string text;
  for (Allocation* allocation : m.memory.all()) {
    if (allocation->state == Allocation::State::freed || allocation->kind == Allocation::Kind::symbol)
      continue;
    if (allocation->from_graph) continue;
    if (allocation->origin.rfind("__", 0) == 0) continue;
    text += format("  %zu bytes at 0x%llx from %s (allocation #%llu, device %d)\n", allocation->bytes,
                   static_cast<unsigned long long>(allocation->start), allocation->origin.c_str(),
                   static_cast<unsigned long long>(allocation->id), allocation->device);
  }
  auto list = [&](const char* what, std::vector<std::uint64_t> ids) {
    std::sort(ids.begin(), ids.end());
    for (auto id : ids) text += format("  %s %llu\n", what, static_cast<unsigned long long>(id));
  };
  std::vector<std::uint64_t> ids;
  for (auto& [handle, stream] : m.streams) ids.push_back(stream->id);
  list("stream", ids);
  ids.clear();
  for (auto& [handle, event] : m.events) ids.push_back(event->id);
  list("event", ids);
  ids.clear();
  for (auto& [handle, graph] : m.graphs) ids.push_back(graph->id);
  list("graph", ids);
  ids.clear();
  for (auto& [handle, exec] : m.execs) ids.push_back(exec->id);
  list("executable graph", ids);
  for (auto& [pointer, object] : m.objects) text += "  " + object.first + " " + object.second + "\n";
  for (const void* pool : m.pools)
    if (!static_cast<const Pool*>(pool)->is_default) text += "  memory pool\n";
  return text;
}

}  // namespace vgpu::rt

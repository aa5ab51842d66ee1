// What the user reads: reports, the trace, names of operations.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "runtime/state.hpp"

namespace vgpu::rt {

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char* text = nullptr;
  const int length = vasprintf(&text, pattern, arguments);
  va_end(arguments);
  if (length < 0) return {};
  std::string result(text, length);
  std::free(text);
  return result;
}

void report(const std::string& text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += "vgpu: " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  std::fwrite(out.data(), 1, out.size(), stderr);
  std::fflush(stderr);
  if (FILE* trace = machine().config.trace; trace && trace != stderr) {
    std::fwrite(out.data(), 1, out.size(), trace);
    std::fflush(trace);
  }
}

void log_op(const std::string& line) {
  if (FILE* trace = machine().config.trace) {
    std::fprintf(trace, "[vgpu] %s\n", line.c_str());
    std::fflush(trace);
  }
}

std::string describe(const Work& work) {
  struct {
    std::string operator()(const EmptyWork& empty) { return empty.label; }
    std::string operator()(const KernelWork& kernel) {
      return format("kernel %s <<<(%u,%u,%u),(%u,%u,%u),%zu>>>", kernel.kernel->pretty.c_str(), kernel.grid.x,
                    kernel.grid.y, kernel.grid.z, kernel.block.x, kernel.block.y, kernel.block.z,
                    kernel.shared);
    }
    std::string operator()(const CopyWork& copy) {
      return format("copy %s of %zu bytes", copy.direction, copy.bytes());
    }
    std::string operator()(const SetWork& set) { return format("memset of %zu bytes", set.bytes()); }
    std::string operator()(const HostWork&) { return "host function"; }
    std::string operator()(const RecordWork& record) {
      return format("record of event %llu", static_cast<unsigned long long>(record.event->id));
    }
    std::string operator()(const WaitWork& wait) {
      return wait.event ? format("wait for event %llu", static_cast<unsigned long long>(wait.event->id))
                        : std::string("wait");
    }
    std::string operator()(const AllocateWork& work) {
      return format("allocation of %zu bytes", work.allocation->bytes);
    }
    std::string operator()(const FreeWork& work) {
      return format("free of %zu bytes", work.allocation->bytes);
    }
    std::string operator()(const ChildWork&) { return "child graph"; }
    std::string operator()(const std::shared_ptr<CustomWork>& work) { return work->describe(); }
  } visitor;
  return std::visit(visitor, work);
}

std::string Op::name() const {
  return format("%s (operation %llu, device %d, %s)", describe(work).c_str(),
                static_cast<unsigned long long>(id), device, lane ? lane->label.c_str() : "no stream");
}

void report_deadlock(const std::string& what) {
  Machine& m = machine();
  std::string text = "DEADLOCK: " + what +
                     " waits for operations that can not run unless another host thread enqueues something\n";
  for (auto& [id, lane] : m.lanes) {
    const Op& op = *lane->queue.front();
    text += format("  %s on device %d: head is %s", lane->label.c_str(), lane->device, op.name().c_str());
    if (lane->queue.size() > 1) text += format(", %zu more behind it", lane->queue.size() - 1);
    text += "\n";
    if (op.running) text += "    is running now\n";
    for (const OpPtr& dep : op.deps)
      if (!dep->done) text += format("    waits for %s\n", dep->name().c_str());
    for (const auto& unit : op.units)
      if (!unit->done) text += "    " + unit->waiting_for() + "\n";
  }
  for (auto& device : m.devices)
    if (device->sticky != cudaSuccess)
      text += format("  device %d has failed: %s\n", device->index, device->sticky_message.c_str());
  // The same standstill is told in full once.
  static auto& previous = *new std::string;  // outlives static objects
  const std::string heads = text.substr(text.find('\n'));
  if (heads == previous) text = "DEADLOCK: " + what + " waits too; nothing has moved since the report above";
  previous = heads;
  report(text);
  if (m.config.abort_on_deadlock) std::abort();
}

}  // namespace vgpu::rt

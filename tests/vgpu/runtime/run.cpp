#include "runtime/run.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::rt {

std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

namespace {

// By how the executor begins its message (what follows names the kernel).
cudaError_t fault_code(const std::string& text) {
  auto begins = [&](const char* words) { return text.rfind(words, 0) == 0; };
  if (begins("misaligned")) return cudaErrorMisalignedAddress;
  if (begins("device-side assert")) return cudaErrorAssert;
  if (begins("trap")) return cudaErrorLaunchFailure;
  if (begins("stack overflow")) return cudaErrorHardwareStackError;
  const std::string head = text.substr(0, text.find(": kernel "));
  if (head.find("deadlock") != std::string::npos || head.find("barrier") != std::string::npos ||
      head.find("too long") != std::string::npos)
    return cudaErrorLaunchTimeout;
  if (head.find("illegal instruction") != std::string::npos) return cudaErrorIllegalInstruction;
  return head.find("address") != std::string::npos ? cudaErrorIllegalAddress : cudaErrorLaunchFailure;
}

char* endpoint_row(const Endpoint& end, std::size_t offset, std::size_t bytes, bool write,
                   const CopyWork& work, const std::string& who, Counts* counts) {
  switch (end.kind) {
    case Endpoint::Kind::raw: return reinterpret_cast<char*>(end.address + offset);
    case Endpoint::Kind::snapshot: return work.snapshot->data() + offset;
    case Endpoint::Kind::device:
      if (counts) counts->add_span(end.address + offset, bytes, write);
      [[fallthrough]];
    default: return machine().memory.translate(-1, end.address + offset, bytes, write, who);
  }
}

}  // namespace

void run_kernel(const Op& op, const KernelWork& work, Counts* counts, std::function<bool(bool)> pause) {
  Machine& m = machine();
  if (cudaError_t error = injected("kernel"); error != cudaSuccess)
    throw Fault{error, "injected failure of kernel " + work.kernel->pretty};
  Launch launch;
  launch.device = op.device;
  launch.grid = work.grid;
  launch.block = work.block;
  launch.dynamic_shared_bytes = work.shared;
  launch.parameters = work.parameters;
  launch.cooperative = work.cooperative;
  launch.multiprocessors = m.config.sms;
  launch.counts = counts;
  launch.pause = std::move(pause);
  launch.seed = mix(m.seed ^ (op.id << 20));
  launch.symbol = [&](std::string_view name) -> std::uint64_t {
    Lock guard(m.mutex);
    return variable_address(*work.kernel->module, op.device, name);
  };
  try {
    execute(*work.kernel->module->module, work.kernel->name, launch, m.memory);
  } catch (const KernelFault& fault) {
    // The executor knows the address, the runtime what lies there.
    std::string text = fault.what();
    unsigned long long address = 0, bytes = 0;
    const auto of = text.find(" of "), at = text.find("address 0x");
    const bool global = text.rfind("invalid ", 0) == 0 || text.rfind("misaligned ", 0) == 0;
    if (global && at != std::string::npos &&
        std::sscanf(text.c_str() + at, "address 0x%llx", &address) == 1) {
      if (of != std::string::npos) std::sscanf(text.c_str() + of, " of %llu bytes", &bytes);
      text += "\n  " + m.memory.explain(op.device, address, bytes ? bytes : 1);
    }
    throw Fault{fault_code(fault.what()), text};
  } catch (const UnsupportedPtx& unsupported) {
    throw Fault{cudaErrorInvalidPtx, std::string("PTX that vgpu does not support: ") + unsupported.what()};
  }
}

void run_copy(const Op& op, const CopyWork& work, Counts* counts) {
  if (cudaError_t error = injected("copy"); error != cudaSuccess)
    throw Fault{error, "injected failure of a copy"};
  if (work.bytes() == 0) return;
  if (counts) counts->launches = 1;
  const std::string who = op.name();
  const bool flat =
      work.depth == 1 && (work.height == 1 || (work.to.pitch == work.width && work.from.pitch == work.width));
  if (flat) {
    const std::size_t bytes = work.width * work.height;
    const char* from = endpoint_row(work.from, 0, bytes, false, work, who, counts);
    std::memmove(endpoint_row(work.to, 0, bytes, true, work, who, counts), from, bytes);
    return;
  }
  for (std::size_t slice = 0; slice < work.depth; ++slice)
    for (std::size_t row = 0; row < work.height; ++row) {
      const char* from = endpoint_row(work.from, slice * work.from.slice + row * work.from.pitch, work.width,
                                      false, work, who, counts);
      std::memmove(endpoint_row(work.to, slice * work.to.slice + row * work.to.pitch, work.width, true, work,
                                who, counts),
                   from, work.width);
    }
}

void run_set(const Op& op, const SetWork& work, Counts* counts) {
  if (work.bytes() == 0) return;
  if (counts) counts->launches = 1;
  const std::string who = op.name();
  auto fill = [&](Address address, std::size_t bytes) {
    if (counts && machine().memory.in_device_range(address)) counts->add_span(address, bytes, true);
    char* to = machine().memory.translate(-1, address, bytes, true, who);
    if (work.element == 1) {
      std::memset(to, static_cast<int>(work.value), bytes);
    } else {
      for (std::size_t at = 0; at < bytes; at += work.element)
        std::memcpy(to + at, &work.value, work.element);
    }
  };
  if (work.depth == 1 && (work.height == 1 || work.pitch == work.width))
    return fill(work.address, work.width * work.height);
  for (std::size_t slice = 0; slice < work.depth; ++slice)
    for (std::size_t row = 0; row < work.height; ++row)
      fill(work.address + slice * work.slice + row * work.pitch, work.width);
}

void run_free(const FreeWork& work) {
  Allocation& allocation = *work.allocation;
  Machine& m = machine();
  Lock guard(m.mutex);
  if (allocation.state == Allocation::State::freed) return;
  const std::size_t bytes = allocation.charged;
  Pool* pool = allocation.pool;
  m.memory.release(allocation, allocation.from_graph ? "a graph's free node" : "cudaFreeAsync");
  if (pool) {
    pool->used -= std::min<std::uint64_t>(pool->used, bytes);
    pool->cached += bytes;
  }
}

double cost(const Op& op) {
  struct {
    double operator()(const EmptyWork&) { return 0; }
    double operator()(const KernelWork& work) {
      return 4000 + 20.0 * static_cast<double>(work.grid.count()) * (work.block.count() + 31) / 32 / 132;
    }
    double operator()(const CopyWork& work) { return 2000 + static_cast<double>(work.bytes()) / 40; }
    double operator()(const SetWork& work) { return 1500 + static_cast<double>(work.bytes()) / 2000; }
    double operator()(const HostWork&) { return 5000; }
    double operator()(const RecordWork&) { return 0; }
    double operator()(const WaitWork&) { return 0; }
    double operator()(const AllocateWork&) { return 500; }
    double operator()(const FreeWork&) { return 500; }
    double operator()(const ChildWork&) { return 0; }
    double operator()(const std::shared_ptr<CustomWork>& work) { return work->nanoseconds(); }
  } visitor;
  return std::visit(visitor, op.work);
}

}  // namespace vgpu::rt

// Copies and memsets: what their ends are, and when they happen.
#include "runtime/copies.hpp"

#include <algorithm>

namespace vgpu::rt {

namespace {

using Kind = Allocation::Kind;
using State = Allocation::State;

const char* direction(const Endpoint& to, const Endpoint& from) {
  auto host = [](const Endpoint& end) { return end.kind != Endpoint::Kind::device; };
  if (host(to)) return host(from) ? "host to host" : "device to host";
  if (host(from)) return "host to device";
  return to.device == from.device ? "device to device" : "peer to peer";
}

cudaError_t classify(Endpoint& end, const void* pointer, std::size_t span, bool write, const char* api) {
  Machine& m = machine();
  end.address = to_address(pointer);
  if (span == 0) {
    end.kind = m.memory.in_device_range(end.address) ? Endpoint::Kind::device : Endpoint::Kind::raw;
    return cudaSuccess;
  }
  Allocation* allocation = m.memory.find(end.address);
  if (!allocation) {
    if (m.memory.in_device_range(end.address)) {
      report(std::string(api) + (write ? ": target, " : ": source, ") +
             m.memory.explain(-1, end.address, span));
      return cudaErrorInvalidValue;
    }
    if (!pointer) return cudaErrorInvalidValue;
    end.kind = Endpoint::Kind::raw;
    return cudaSuccess;
  }
  if (allocation->is_freed() || end.address + span > allocation->start + allocation->bytes) {
    if (allocation->kind == Kind::registered && allocation->state != State::freed) {
      end.kind = Endpoint::Kind::raw;  // only partly registered
      return cudaSuccess;
    }
    report(
        std::string(api) + (write ? ": target, " : ": source, ") + m.memory.explain(-1, end.address, span) +
        (allocation->free_queued && allocation->state != State::freed ? " (cudaFreeAsync was called for it)"
                                                                      : ""));
    return cudaErrorInvalidValue;
  }
  end.kind = allocation->on_device() ? Endpoint::Kind::device : Endpoint::Kind::pinned;
  end.device = allocation->device;
  return cudaSuccess;
}

bool direction_allowed(cudaMemcpyKind kind, const Endpoint& to, const Endpoint& from) {
  const bool to_raw = to.kind == Endpoint::Kind::raw, from_raw = from.kind == Endpoint::Kind::raw;
  const bool to_device = to.kind == Endpoint::Kind::device, from_device = from.kind == Endpoint::Kind::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return !to_raw && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && !from_raw;
    case cudaMemcpyDeviceToDevice: return !to_raw && !from_raw;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

// A default-stream copy between devices is ordered with work of both.
void order_with_other_device(Lock&, StreamObject& stream, const OpPtr& op, const CopyWork& copy,
                             bool before) {
  if (!stream.legacy) return;
  for (const Endpoint* end : {&copy.to, &copy.from}) {
    if (end->kind != Endpoint::Kind::device || end->device == stream.device || end->device < 0) continue;
    Device& other = *machine().devices[end->device];
    if (before) continue;
    for (StreamObject* lane : other.streams)
      if (!(lane->flags & cudaStreamNonBlocking) && lane->lane.last && lane->lane.last != op)
        op->deps.push_back(lane->lane.last);
    OpPtr gate = make_op(end->device, EmptyWork{"order with a peer copy"});
    gate->deps.push_back(op);
    append(other.legacy->lane, gate);
  }
}

// The call that owns the host buffer returns without the copy: it must not happen later.
void abandon(const OpPtr& op) {
  if (!op->done && !op->running) op->work = EmptyWork{"abandoned copy"};
}

}  // namespace

std::size_t span_of(Shape shape, std::size_t pitch, std::size_t slice) {
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0) return 0;
  return (shape.depth - 1) * slice + (shape.height - 1) * pitch + shape.width;
}

cudaError_t make_copy(CopyWork& copy, void* to, std::size_t to_pitch, std::size_t to_slice, const void* from,
                      std::size_t from_pitch, std::size_t from_slice, Shape shape, cudaMemcpyKind kind,
                      const char* api) {
  copy.width = shape.width;
  copy.height = shape.height;
  copy.depth = shape.depth;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (shape.height > 1 && (to_pitch < shape.width || from_pitch < shape.width))
    return cudaErrorInvalidPitchValue;
  if (cudaError_t error = classify(copy.to, to, span_of(shape, to_pitch, to_slice), true, api);
      error != cudaSuccess)
    return error;
  if (cudaError_t error = classify(copy.from, from, span_of(shape, from_pitch, from_slice), false, api);
      error != cudaSuccess)
    return error;
  copy.to.pitch = to_pitch;
  copy.to.slice = to_slice;
  copy.from.pitch = from_pitch;
  copy.from.slice = from_slice;
  if (copy.bytes() && !direction_allowed(kind, copy.to, copy.from)) {
    report(format("%s: the copy is %s, which contradicts its cudaMemcpyKind %d", api,
                  direction(copy.to, copy.from), kind));
    return cudaErrorInvalidValue;
  }
  copy.direction = direction(copy.to, copy.from);
  return cudaSuccess;
}

cudaError_t make_copy(CopyWork& copy, const cudaMemcpy3DParms& p, const char* api) {
  if (p.srcArray || p.dstArray) {
    report(std::string(api) + ": CUDA arrays are not supported");
    return cudaErrorNotSupported;
  }
  auto slice = [&](const cudaPitchedPtr& end) {
    return end.pitch * (end.ysize ? end.ysize : p.extent.height);
  };
  auto start = [&](const cudaPitchedPtr& end, const cudaPos& at) {
    return static_cast<char*>(end.ptr) + at.z * slice(end) + at.y * end.pitch + at.x;
  };
  return make_copy(copy, start(p.dstPtr, p.dstPos), p.dstPtr.pitch, slice(p.dstPtr),
                   start(p.srcPtr, p.srcPos), p.srcPtr.pitch, slice(p.srcPtr),
                   {p.extent.width, p.extent.height, p.extent.depth}, p.kind, api);
}

cudaError_t make_set(SetWork& set, void* to, std::size_t pitch, std::size_t slice, unsigned value,
                     unsigned element, Shape shape, const char* api) {
  set.address = to_address(to);
  set.pitch = pitch;
  set.slice = slice;
  set.width = shape.width;
  set.height = shape.height;
  set.depth = shape.depth;
  set.value = element == 1 ? value & 0xFF : element == 2 ? value & 0xFFFF : value;
  set.element = element;
  Endpoint end;
  if (cudaError_t error = classify(end, to, span_of(shape, pitch, slice), true, api); error != cudaSuccess)
    return error;
  if (set.bytes() && end.kind == Endpoint::Kind::raw) {
    report(std::string(api) + ": the target is pageable host memory");
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t submit_copy(Lock& lock, StreamObject& stream, CopyWork copy, const char* name) {
  if (copy.bytes() == 0) return cudaSuccess;
  const bool to_raw = copy.to.kind == Endpoint::Kind::raw;
  const bool host_only = copy.to.kind != Endpoint::Kind::device && copy.from.kind != Endpoint::Kind::device;
  if (stream.capture) return submit(lock, stream, std::move(copy));
  if (copy.from.kind == Endpoint::Kind::raw) {
    const std::size_t span =
        (copy.depth - 1) * copy.from.slice + (copy.height - 1) * copy.from.pitch + copy.width;
    const char* source = reinterpret_cast<const char*>(copy.from.address);
    copy.snapshot = std::make_shared<std::vector<char>>(source, source + span);
    copy.from.kind = Endpoint::Kind::snapshot;
  }
  OpPtr op;
  CopyWork keep = copy;
  keep.snapshot.reset();
  if (cudaError_t error = submit(lock, stream, std::move(copy), &op); error != cudaSuccess) return error;
  if (!op->done) order_with_other_device(lock, stream, op, keep, false);
  if (to_raw || host_only) {
    if (cudaError_t error = wait_for(lock, op, name); error != cudaSuccess) {
      abandon(op);
      return error;
    }
    return machine().devices[stream.device]->sticky;
  }
  return cudaSuccess;
}

cudaError_t copy_now(Lock& lock, StreamObject& stream, CopyWork copy, const char* name) {
  if (copy.bytes() == 0) return cudaSuccess;
  const bool device_only = copy.to.kind == Endpoint::Kind::device && copy.from.kind == Endpoint::Kind::device;
  const bool staged = copy.from.kind == Endpoint::Kind::raw && copy.to.kind == Endpoint::Kind::device;
  if (staged && machine().config.lazy_memcpy) {
    if (cudaError_t error = wait_for(lock, stream.lane.last, name); error != cudaSuccess) return error;
    return submit_copy(lock, stream, std::move(copy), name);
  }
  if (cudaError_t error = submit_copy(lock, stream, std::move(copy), name); error != cudaSuccess)
    return error;
  if (device_only) return cudaSuccess;  // asynchronous to the host, as documented
  const OpPtr op = stream.lane.last;
  if (cudaError_t error = wait_for(lock, op, name); error != cudaSuccess) {
    abandon(op);
    return error;
  }
  return machine().devices[stream.device]->sticky;
}

}  // namespace vgpu::rt

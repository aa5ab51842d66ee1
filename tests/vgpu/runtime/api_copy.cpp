// Copies and memsets.
#include <algorithm>

#include "runtime/copies.hpp"

namespace vgpu::rt {

namespace {

StreamObject* legacy_stream(bool per_thread = false) {
  return resolve_stream(per_thread ? cudaStreamPerThread : cudaStreamLegacy, thread_state().device);
}

std::string copy_info(const CopyWork& copy, const StreamObject* stream) {
  if (!trace_on()) return {};
  return format("%s %zu bytes 0x%llx <- 0x%llx%s", copy.direction, copy.bytes(),
                static_cast<unsigned long long>(copy.to.address),
                static_cast<unsigned long long>(copy.from.address),
                stream ? (", " + stream->name()).c_str() : "");
}

cudaError_t copy_api(const char* name, void* to, std::size_t to_pitch, const void* from,
                     std::size_t from_pitch, Shape shape, cudaMemcpyKind kind, bool async,
                     cudaStream_t handle, bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    CopyWork copy;
    if (cudaError_t error = make_copy(copy, to, to_pitch, to_pitch * shape.height, from, from_pitch,
                                      from_pitch * shape.height, shape, kind, name);
        error != cudaSuccess)
      return error;
    call.info = copy_info(copy, stream);
    return async ? submit_copy(lock, *stream, std::move(copy), name)
                 : copy_now(lock, *stream, std::move(copy), name);
  });
}

cudaError_t set_api(const char* name, void* to, std::size_t pitch, std::size_t slice, int value, Shape shape,
                    bool async, cudaStream_t handle, bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    SetWork set;
    if (cudaError_t error = make_set(set, to, pitch, slice, static_cast<unsigned>(value), 1, shape, name);
        error != cudaSuccess)
      return error;
    if (set.bytes() == 0) return cudaSuccess;
    call.info = format("%p %zu bytes, %s", to, set.bytes(), stream->name().c_str());
    const bool host = !machine().memory.in_device_range(to_address(to));
    OpPtr op;
    if (cudaError_t error = submit(lock, *stream, set, &op); error != cudaSuccess) return error;
    if (!async && host) return wait_for(lock, op, name);  // pinned host memory is set synchronously
    return cudaSuccess;
  });
}

cudaError_t copy_3d(const char* name, const cudaMemcpy3DParms* p, bool async, cudaStream_t handle,
                    bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    if (!p) return cudaErrorInvalidValue;
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    CopyWork copy;
    if (cudaError_t error = make_copy(copy, *p, name); error != cudaSuccess) return error;
    call.info = copy_info(copy, stream);
    return async ? submit_copy(lock, *stream, std::move(copy), name)
                 : copy_now(lock, *stream, std::move(copy), name);
  });
}

cudaError_t copy_peer(const char* name, void* to, int to_device, const void* from, int from_device,
                      std::size_t bytes, bool async, cudaStream_t handle) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    if (!valid_device(to_device) || !valid_device(from_device)) return cudaErrorInvalidDevice;
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream();
    if (!stream) return cudaErrorInvalidResourceHandle;
    CopyWork copy;
    if (cudaError_t error =
            make_copy(copy, to, bytes, bytes, from, bytes, bytes, {bytes}, cudaMemcpyDefault, name);
        error != cudaSuccess)
      return error;
    if ((copy.to.kind == Endpoint::Kind::device && copy.to.device != to_device) ||
        (copy.from.kind == Endpoint::Kind::device && copy.from.device != from_device)) {
      report(format("%s: target is on device %d (said %d), source on device %d (said %d)", name,
                    copy.to.device, to_device, copy.from.device, from_device));
      return cudaErrorInvalidValue;
    }
    call.info = copy_info(copy, stream);
    return submit_copy(lock, *stream, std::move(copy), name);
  });
}

cudaError_t copy_symbol(const char* name, void* host, const void* symbol, std::size_t bytes,
                        std::size_t offset, cudaMemcpyKind kind, bool to_symbol, bool async,
                        cudaStream_t handle, bool per_thread = false) {
  return api(name, async ? plain : unsafe, [&](Lock& lock, Call& call) {
    VariableHandle* variable = find_variable(symbol);
    if (!variable) return cudaErrorInvalidSymbol;
    if (offset > variable->bytes || bytes > variable->bytes - offset) return cudaErrorInvalidValue;
    StreamObject* stream = async ? resolve_stream(handle, thread_state().device) : legacy_stream(per_thread);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const Address address = variable_address(*variable->module, thread_state().device, variable->name);
    if (!address) return cudaErrorInvalidSymbol;
    void* device = reinterpret_cast<void*>(address + offset);
    CopyWork copy;
    if (cudaError_t error =
            to_symbol ? make_copy(copy, device, bytes, bytes, host, bytes, bytes, {bytes}, kind, name)
                      : make_copy(copy, host, bytes, bytes, device, bytes, bytes, {bytes}, kind, name);
        error != cudaSuccess)
      return error;
    call.info = copy_info(copy, stream);
    return async ? submit_copy(lock, *stream, std::move(copy), name)
                 : copy_now(lock, *stream, std::move(copy), name);
  });
}

cudaMemcpy3DParms plain_parameters(const cudaMemcpy3DPeerParms& p) {
  cudaMemcpy3DParms result{};
  result.srcArray = p.srcArray;
  result.srcPos = p.srcPos;
  result.srcPtr = p.srcPtr;
  result.dstArray = p.dstArray;
  result.dstPos = p.dstPos;
  result.dstPtr = p.dstPtr;
  result.extent = p.extent;
  result.kind = cudaMemcpyDefault;
  return result;
}

}  // namespace

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy", to, bytes, from, bytes, {bytes}, kind, false, nullptr);
}
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy", to, bytes, from, bytes, {bytes}, kind, false, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_api("cudaMemcpyAsync", to, bytes, from, bytes, {bytes}, kind, true, stream);
}
cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, kind, per_thread_default(stream));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy2D", to, to_pitch, from, from_pitch, {width, height}, kind, false, nullptr);
}
cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
  return copy_api("cudaMemcpy2D", to, to_pitch, from, from_pitch, {width, height}, kind, false, nullptr,
                  true);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_api("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, {width, height}, kind, true, stream);
}
cudaError_t cudaMemcpy2DAsync_ptsz(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, per_thread_default(stream));
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) { return copy_3d("cudaMemcpy3D", p, false, nullptr); }
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* p) {
  return copy_3d("cudaMemcpy3D", p, false, nullptr, true);
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return copy_3d("cudaMemcpy3DAsync", p, true, stream);
}
cudaError_t cudaMemcpy3DAsync_ptsz(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return cudaMemcpy3DAsync(p, per_thread_default(stream));
}
cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  if (!p) return cudaErrorInvalidValue;
  const cudaMemcpy3DParms same = plain_parameters(*p);
  return copy_3d("cudaMemcpy3DPeer", &same, false, nullptr);
}
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* p) { return cudaMemcpy3DPeer(p); }
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  if (!p) return cudaErrorInvalidValue;
  const cudaMemcpy3DParms same = plain_parameters(*p);
  return copy_3d("cudaMemcpy3DPeerAsync", &same, true, stream);
}
cudaError_t cudaMemcpy3DPeerAsync_ptsz(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  return cudaMemcpy3DPeerAsync(p, per_thread_default(stream));
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return copy_peer("cudaMemcpyPeer", to, to_device, from, from_device, bytes, false, nullptr);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return copy_peer("cudaMemcpyPeerAsync", to, to_device, from, from_device, bytes, true, stream);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyToSymbol", const_cast<void*>(from), symbol, bytes, offset, kind, true, false,
                     nullptr);
}
cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyToSymbol", const_cast<void*>(from), symbol, bytes, offset, kind, true, false,
                     nullptr, true);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind, false, false, nullptr);
}
cudaError_t cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind) {
  return copy_symbol("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind, false, false, nullptr, true);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_symbol("cudaMemcpyToSymbolAsync", const_cast<void*>(from), symbol, bytes, offset, kind, true,
                     true, stream);
}
cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void* symbol, const void* from, size_t bytes, size_t offset,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, per_thread_default(stream));
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_symbol("cudaMemcpyFromSymbolAsync", to, symbol, bytes, offset, kind, false, true, stream);
}
cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void* to, const void* symbol, size_t bytes, size_t offset,
                                           cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, per_thread_default(stream));
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return set_api("cudaMemset", to, bytes, bytes, value, {bytes}, false, nullptr);
}
cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return set_api("cudaMemset", to, bytes, bytes, value, {bytes}, false, nullptr, true);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return set_api("cudaMemsetAsync", to, bytes, bytes, value, {bytes}, true, stream);
}
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemsetAsync(to, value, bytes, per_thread_default(stream));
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return set_api("cudaMemset2D", to, pitch, pitch * height, value, {width, height}, false, nullptr);
}
cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return set_api("cudaMemset2D", to, pitch, pitch * height, value, {width, height}, false, nullptr, true);
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return set_api("cudaMemset2DAsync", to, pitch, pitch * height, value, {width, height}, true, stream);
}
cudaError_t cudaMemset2DAsync_ptsz(void* to, size_t pitch, int value, size_t width, size_t height,
                                   cudaStream_t stream) {
  return cudaMemset2DAsync(to, pitch, value, width, height, per_thread_default(stream));
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return set_api("cudaMemset3D", to.ptr, to.pitch, to.pitch * to.ysize, value,
                 {extent.width, extent.height, extent.depth}, false, nullptr);
}
cudaError_t cudaMemset3D_ptds(cudaPitchedPtr to, int value, cudaExtent extent) {
  return set_api("cudaMemset3D", to.ptr, to.pitch, to.pitch * to.ysize, value,
                 {extent.width, extent.height, extent.depth}, false, nullptr, true);
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return set_api("cudaMemset3DAsync", to.ptr, to.pitch, to.pitch * to.ysize, value,
                 {extent.width, extent.height, extent.depth}, true, stream);
}
cudaError_t cudaMemset3DAsync_ptsz(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return cudaMemset3DAsync(to, value, extent, per_thread_default(stream));
}
}

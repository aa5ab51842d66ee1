// Streams, events, host functions.
#include <algorithm>

#include "runtime/state.hpp"

namespace vgpu::rt {

std::string StreamObject::name() const {
  if (legacy) return "legacy default stream";
  if (per_thread) return "per-thread default stream";
  return format("stream %llu", static_cast<unsigned long long>(id));
}

StreamObject* resolve_stream(cudaStream_t handle, int device) {
  Machine& m = machine();
  if (handle == nullptr || handle == cudaStreamLegacy) return m.devices[device]->legacy;
  if (handle == cudaStreamPerThread) {
    StreamObject*& stream = m.devices[device]->per_thread[thread_state().number];
    if (!stream) {
      stream = new StreamObject;
      stream->device = device;
      stream->per_thread = true;
      initialise_lane(stream->lane, device,
                      format("per-thread default stream of thread %llu",
                             static_cast<unsigned long long>(thread_state().number)));
      m.devices[device]->streams.insert(stream);
    }
    return stream;
  }
  auto found = m.streams.find(handle);
  return found == m.streams.end() ? nullptr : found->second;
}

namespace {

std::shared_ptr<EventObject> find_event(cudaEvent_t handle) {
  auto found = machine().events.find(handle);
  return found == machine().events.end() ? nullptr : found->second;
}

// A handle is an address that nothing else has; the runtime gives a destroyed object's to the next one.
void* new_handle(std::vector<void*>& destroyed) {
  if (destroyed.empty()) return new char;
  void* const handle = destroyed.back();
  destroyed.pop_back();
  return handle;
}

void destroy_handle(std::vector<void*>& destroyed, void* handle) {
  if (machine().config.strict.handle_reuse) destroyed.push_back(handle);
}

cudaError_t create_stream(Call& call, cudaStream_t* handle, unsigned flags, int priority) {
  Machine& m = machine();
  if (!handle || (flags & ~cudaStreamNonBlocking)) return cudaErrorInvalidValue;
  auto* stream = new StreamObject;
  stream->id = m.next_id++;
  stream->device = thread_state().device;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  initialise_lane(stream->lane, stream->device,
                  format("stream %llu", static_cast<unsigned long long>(stream->id)));
  *handle = static_cast<cudaStream_t>(new_handle(m.free_streams));
  m.streams[*handle] = stream;
  m.devices[stream->device]->streams.insert(stream);
  call.info = "-> " + stream->name();
  return cudaSuccess;
}

cudaError_t reject_capturing(StreamObject& stream, const char* what) {
  if (!stream.capture) return cudaSuccess;
  invalidate(*stream.capture, cudaErrorStreamCaptureUnsupported,
             std::string(what) + " on a stream that is being captured");
  return cudaErrorStreamCaptureUnsupported;
}

// The null stream cannot be waited for while blocking streams of the device are captured.
cudaError_t reject_implicit(StreamObject& stream, const char* what) {
  if (!stream.legacy) return cudaSuccess;
  for (const auto& session : machine().captures)
    for (StreamObject* other : session->streams)
      if (other->device == stream.device && !(other->flags & cudaStreamNonBlocking)) {
        invalidate(*session, cudaErrorStreamCaptureImplicit,
                   std::string(what) + " on the legacy default stream while a blocking stream is captured");
        return cudaErrorStreamCaptureImplicit;
      }
  return cudaSuccess;
}

cudaError_t record_event(Lock& lock, Call& call, cudaEvent_t handle, cudaStream_t stream_handle,
                         unsigned flags) {
  auto event = find_event(handle);
  if (!event) return cudaErrorInvalidResourceHandle;
  if (flags & ~cudaEventRecordExternal) return cudaErrorInvalidValue;
  StreamObject* stream = resolve_stream(stream_handle, thread_state().device);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->device != event->device) {
    report(format("cudaEventRecord: event of device %d recorded in a stream of device %d", event->device,
                  stream->device));
    return cudaErrorInvalidResourceHandle;
  }
  call.info = format("event %llu, %s", static_cast<unsigned long long>(event->id), stream->name().c_str());
  if (stream->capture) {
    if (stream->capture->invalid != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
    if (flags & cudaEventRecordExternal) return capture_work(*stream, RecordWork{event}, stream->device);
    event->capture = stream->capture;
    event->capture_nodes = stream->capture_tail;
    return cudaSuccess;
  }
  return submit(lock, *stream, RecordWork{event});
}

cudaError_t wait_event(Lock& lock, Call& call, cudaStream_t stream_handle, cudaEvent_t handle,
                       unsigned flags) {
  auto event = find_event(handle);
  if (!event) return cudaErrorInvalidResourceHandle;
  if (flags & ~cudaEventWaitExternal) return cudaErrorInvalidValue;
  StreamObject* stream = resolve_stream(stream_handle, thread_state().device);
  if (!stream) return cudaErrorInvalidResourceHandle;
  call.info = format("%s, event %llu", stream->name().c_str(), static_cast<unsigned long long>(event->id));
  if (event->capture) {
    CaptureSession& session = *event->capture;
    if (session.ended) {
      // The capture is over: the event stands for nothing outside it.
      report("cudaStreamWaitEvent: the event was last recorded in a capture that has ended");
      return cudaErrorCapturedEvent;
    }
    if (stream->capture && stream->capture != event->capture) {
      invalidate(session, cudaErrorStreamCaptureMerge, "a wait would merge two captures");
      invalidate(*stream->capture, cudaErrorStreamCaptureMerge, "a wait would merge two captures");
      return cudaErrorStreamCaptureMerge;
    }
    if (session.invalid != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
    if (!stream->capture) {
      if (stream->legacy) {
        invalidate(session, cudaErrorStreamCaptureImplicit,
                   "the legacy default stream cannot join a capture");
        return cudaErrorStreamCaptureImplicit;
      }
      stream->capture = event->capture;
      stream->capture_tail.clear();
      session.streams.insert(stream);
    }
    for (Node* node : event->capture_nodes)
      if (std::find(stream->capture_tail.begin(), stream->capture_tail.end(), node) ==
          stream->capture_tail.end())
        stream->capture_tail.push_back(node);
    return cudaSuccess;
  }
  if (stream->capture) {
    if (flags & cudaEventWaitExternal) return capture_work(*stream, WaitWork{event}, stream->device);
    if (!event->record) return cudaSuccess;  // an event never recorded: nothing to wait for
    invalidate(*stream->capture, cudaErrorStreamCaptureIsolation,
               "a captured stream waits for an event recorded outside the capture");
    return cudaErrorStreamCaptureIsolation;
  }
  if (!event->record) return cudaSuccess;
  return submit(lock, *stream, WaitWork{event});
}

cudaError_t event_pending(Lock& lock, const std::shared_ptr<EventObject>& event, const char* name,
                          bool block) {
  if (event->capture) {
    if (!event->capture->ended)
      invalidate(*event->capture, cudaErrorCapturedEvent, std::string(name) + " on an event of the capture");
    return cudaErrorCapturedEvent;
  }
  OpPtr op = event->record;
  if (!op) return cudaSuccess;
  if (block) {
    if (cudaError_t error = wait_for(lock, op, name); error != cudaSuccess) return error;
  } else {
    if (!op->done) poke(lock);
    if (!op->done) return stalled_query(lock, name) ? cudaErrorLaunchTimeout : cudaErrorNotReady;
    host_saw(op);
  }
  return machine().devices[event->device]->sticky;
}

}  // namespace
}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return api("cudaStreamCreate", plain, [&](Lock&, Call& call) { return create_stream(call, handle, 0, 0); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return api("cudaStreamCreateWithFlags", plain,
             [&](Lock&, Call& call) { return create_stream(call, handle, flags, 0); });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  return api("cudaStreamCreateWithPriority", plain,
             [&](Lock&, Call& call) { return create_stream(call, handle, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api("cudaStreamDestroy", no_sticky, [&](Lock&, Call& call) {
    Machine& m = machine();
    auto found = m.streams.find(handle);
    if (found == m.streams.end()) {
      report(format("cudaStreamDestroy(%p): not a live stream", static_cast<void*>(handle)));
      return cudaErrorInvalidResourceHandle;
    }
    StreamObject* stream = found->second;
    call.info = stream->name();
    // A forked stream may go before the capture ends: its work stays in the graph, and must have been joined.
    if (stream->capture && stream->capture->origin == stream) {
      invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported,
                 "the stream whose capture goes on was destroyed");
      stream->capture->streams.erase(stream);
      stream->capture.reset();
    }
    // Work that is queued still runs, later.
    m.streams.erase(found);
    destroy_handle(m.free_streams, handle);
    stream->destroyed = true;
    stream->lane.label += " (destroyed)";
    if (stream->lane.queue.empty() && !stream->lane.last) m.devices[stream->device]->streams.erase(stream);
    return m.devices[stream->device]->sticky;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return api("cudaStreamSynchronize", plain, [&](Lock& lock, Call& call) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    call.info = stream->name();
    if (cudaError_t error = reject_capturing(*stream, call.name); error != cudaSuccess) return error;
    if (cudaError_t error = reject_implicit(*stream, call.name); error != cudaSuccess) return error;
    if (cudaError_t error = check_unsafe(call.name); error != cudaSuccess) return error;
    std::vector<OpPtr> tails;
    if (stream->lane.last) tails.push_back(stream->lane.last);
    if (stream->legacy)  // waits for the blocking streams too
      for (StreamObject* other : machine().devices[stream->device]->streams)
        if (!(other->flags & cudaStreamNonBlocking) && other->lane.last) tails.push_back(other->lane.last);
    for (const OpPtr& op : tails)
      if (cudaError_t error = wait_for(lock, op, call.name); error != cudaSuccess) return error;
    return machine().devices[stream->device]->sticky;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api("cudaStreamQuery", plain, [&](Lock& lock, Call& call) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    call.info = stream->name();
    if (cudaError_t error = reject_capturing(*stream, call.name); error != cudaSuccess) return error;
    if (cudaError_t error = reject_implicit(*stream, call.name); error != cudaSuccess) return error;
    OpPtr op = stream->lane.last;
    if (op && !op->done) poke(lock);
    if (op && !op->done) return stalled_query(lock, call.name) ? cudaErrorLaunchTimeout : cudaErrorNotReady;
    if (op) host_saw(op);
    return machine().devices[stream->device]->sticky;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return api("cudaStreamGetPriority", plain, [&](Lock&, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!priority) return cudaErrorInvalidValue;
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return api("cudaStreamGetFlags", plain, [&](Lock&, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!flags) return cudaErrorInvalidValue;
    *flags = stream->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return api("cudaStreamGetId", plain, [&](Lock&, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!id) return cudaErrorInvalidValue;
    *id = stream->lane.id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return api("cudaStreamGetDevice", plain, [&](Lock&, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!device) return cudaErrorInvalidValue;
    *device = stream->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return api("cudaStreamCopyAttributes", plain, [&](Lock&, Call&) {
    StreamObject* target = resolve_stream(to, thread_state().device);
    StreamObject* source = resolve_stream(from, thread_state().device);
    if (!target || !source) return cudaErrorInvalidResourceHandle;
    target->sync_policy = source->sync_policy;
    target->access_policy = source->access_policy;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetAttribute(cudaStream_t handle, cudaStreamAttrID which, cudaStreamAttrValue* value) {
  return api("cudaStreamGetAttribute", plain, [&](Lock&, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!value) return cudaErrorInvalidValue;
    if (which == cudaLaunchAttributePriority)
      value->priority = stream->priority;
    else if (which == cudaLaunchAttributeSynchronizationPolicy)
      *value = stream->sync_policy;
    else
      *value = stream->access_policy;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID which,
                                   const cudaStreamAttrValue* value) {
  return api("cudaStreamSetAttribute", plain, [&](Lock&, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!value) return cudaErrorInvalidValue;
    if (which == cudaLaunchAttributePriority)
      stream->priority = value->priority;
    else if (which == cudaLaunchAttributeSynchronizationPolicy)
      stream->sync_policy = *value;
    else
      stream->access_policy = *value;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t handle, void*, size_t, unsigned) {
  return api("cudaStreamAttachMemAsync", plain, [&](Lock& lock, Call&) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    return stream ? submit(lock, *stream, EmptyWork{"attach"}) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return api("cudaStreamWaitEvent", plain,
             [&](Lock& lock, Call& call) { return wait_event(lock, call, stream, event, flags); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return api("cudaLaunchHostFunc", plain, [&](Lock& lock, Call& call) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!function) return cudaErrorInvalidValue;
    call.info = stream->name();
    return submit(lock, *stream, HostWork{function, nullptr, handle, data});
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return api("cudaStreamAddCallback", plain, [&](Lock& lock, Call& call) {
    StreamObject* stream = resolve_stream(handle, thread_state().device);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!callback || flags) return cudaErrorInvalidValue;
    if (cudaError_t error = reject_capturing(*stream, call.name); error != cudaSuccess) return error;
    call.info = stream->name();
    return submit(lock, *stream, HostWork{nullptr, callback, handle, data});
  });
}

// ---- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  return api("cudaEventCreate", plain, [&](Lock&, Call& call) {
    Machine& m = machine();
    if (!handle || (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess)))
      return cudaErrorInvalidValue;
    if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)) return cudaErrorInvalidValue;
    auto event = std::make_shared<EventObject>();
    event->id = m.next_id++;
    event->device = thread_state().device;
    event->flags = flags;
    *handle = static_cast<cudaEvent_t>(new_handle(m.free_events));
    m.events[*handle] = event;
    call.info = format("-> event %llu", static_cast<unsigned long long>(event->id));
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return api("cudaEventDestroy", no_sticky, [&](Lock&, Call& call) {
    auto event = find_event(handle);
    if (!event) {
      report(format("cudaEventDestroy(%p): not a live event", static_cast<void*>(handle)));
      return cudaErrorInvalidResourceHandle;
    }
    call.info = format("event %llu", static_cast<unsigned long long>(event->id));
    event->destroyed = true;
    machine().events.erase(handle);
    destroy_handle(machine().free_events, handle);
    return machine().devices[event->device]->sticky;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api("cudaEventRecord", plain,
             [&](Lock& lock, Call& call) { return record_event(lock, call, event, stream, 0); });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return api("cudaEventRecordWithFlags", plain,
             [&](Lock& lock, Call& call) { return record_event(lock, call, event, stream, flags); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return api("cudaEventSynchronize", plain, [&](Lock& lock, Call& call) {
    auto event = find_event(handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    call.info = format("event %llu", static_cast<unsigned long long>(event->id));
    return event_pending(lock, event, call.name, true);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return api("cudaEventQuery", plain, [&](Lock& lock, Call& call) {
    auto event = find_event(handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    call.info = format("event %llu", static_cast<unsigned long long>(event->id));
    return event_pending(lock, event, call.name, false);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return api("cudaEventElapsedTime", plain, [&](Lock&, Call&) {
    auto first = find_event(start), second = find_event(stop);
    if (!milliseconds) return cudaErrorInvalidValue;
    if (!first || !second || !first->record || !second->record) return cudaErrorInvalidResourceHandle;
    if (first->device != second->device) return cudaErrorInvalidResourceHandle;
    if ((first->flags | second->flags) & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
    if (!first->record->done || !second->record->done) return cudaErrorNotReady;
    *milliseconds = static_cast<float>((second->record->finish - first->record->finish) * 1e-6);
    return cudaSuccess;
  });
}

// ---- variants for per-thread default streams

static cudaStream_t own(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t s) { return cudaStreamSynchronize(own(s)); }
cudaError_t cudaStreamQuery_ptsz(cudaStream_t s) { return cudaStreamQuery(own(s)); }
cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t s, int* v) { return cudaStreamGetPriority(own(s), v); }
cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t s, unsigned* v) { return cudaStreamGetFlags(own(s), v); }
cudaError_t cudaStreamGetId_ptsz(cudaStream_t s, unsigned long long* v) { return cudaStreamGetId(own(s), v); }
cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t s, int* v) { return cudaStreamGetDevice(own(s), v); }
cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t a, cudaStream_t b) {
  return cudaStreamCopyAttributes(own(a), own(b));
}
cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t s, cudaStreamAttrID a, cudaStreamAttrValue* v) {
  return cudaStreamGetAttribute(own(s), a, v);
}
cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t s, cudaStreamAttrID a, const cudaStreamAttrValue* v) {
  return cudaStreamSetAttribute(own(s), a, v);
}
cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t s, void* p, size_t n, unsigned f) {
  return cudaStreamAttachMemAsync(own(s), p, n, f);
}
cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t s, cudaEvent_t e, unsigned f) {
  return cudaStreamWaitEvent(own(s), e, f);
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t s, cudaHostFn_t f, void* d) {
  return cudaLaunchHostFunc(own(s), f, d);
}
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t s, cudaStreamCallback_t c, void* d, unsigned f) {
  return cudaStreamAddCallback(own(s), c, d, f);
}
cudaError_t cudaEventRecord_ptsz(cudaEvent_t e, cudaStream_t s) { return cudaEventRecord(e, own(s)); }
cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t e, cudaStream_t s, unsigned f) {
  return cudaEventRecordWithFlags(e, own(s), f);
}
}

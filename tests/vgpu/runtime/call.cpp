// How every call of the API begins and ends; injected failures.
#include <atomic>
#include <cstring>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

// vgpu_on_call's.
std::atomic<int (*)(const char* name, int is_over)> watcher{nullptr};

}  // namespace

int watch(const char* name, bool is_over) {
  const auto hook = watcher.load();
  return hook ? hook(name, is_over) : 0;
}

bool trace_on() { return machine().config.trace != nullptr; }

// Must be called without the lock.
cudaError_t injected(const char* name) {
  Machine& m = machine();
  if (const int error = watch(name, false)) return static_cast<cudaError_t>(error);
  if (m.rules.empty()) return cudaSuccess;
  Lock lock(m.mutex);
  for (FailRule& rule : m.rules) {
    if (rule.name != name) continue;
    ++rule.seen;
    if (rule.seen != rule.at && !(rule.onwards && rule.seen > rule.at)) continue;
    cudaError_t fallback = cudaErrorUnknown;
    if (std::strncmp(name, "cudaMalloc", 10) == 0 || std::strncmp(name, "cudaHostAlloc", 13) == 0)
      fallback = cudaErrorMemoryAllocation;
    else if (std::strncmp(name, "cudaLaunch", 10) == 0)
      fallback = cudaErrorLaunchOutOfResources;
    else if (std::strcmp(name, "kernel") == 0 || std::strcmp(name, "collective") == 0)
      fallback = cudaErrorLaunchFailure;
    else if (std::strcmp(name, "copy") == 0)
      fallback = cudaErrorIllegalAddress;
    const cudaError_t error = rule.error.empty() ? fallback : error_by_name(rule.error, fallback);
    report(format("injected failure of call %llu of %s: %s", static_cast<unsigned long long>(rule.seen), name,
                  cudaGetErrorName(error)));
    return error;
  }
  return cudaSuccess;
}

bool enter_api(const char* name, unsigned flags, Lock& lock, cudaError_t& error) {
  ThreadState& thread = thread_state();
  thread.waited = thread.may_wait = false;
  error = unusable();
  if (error != cudaSuccess) return false;
  if (thread.in_host_function && !(flags & no_record)) {
    report(std::string(name) +
           " was called from a host function or stream callback, where CUDA calls are forbidden");
    error = cudaErrorNotPermitted;
    return false;
  }
  error = injected(name);
  if (error != cudaSuccess) return false;
  Machine& m = machine();
  lock = Lock(m.mutex);
  if (!(flags & no_sticky)) {
    error = use_context(thread.device, name);
    if (error != cudaSuccess) return false;
    error = m.devices[thread.device]->sticky;
    if (error != cudaSuccess) return false;
  }
  if (flags & unsafe) {
    error = check_unsafe(name);
    if (error != cudaSuccess) return false;
  }
  return true;
}

cudaError_t leave_api(Call& call, unsigned flags, Lock& lock, cudaError_t error) {
  ThreadState& thread = thread_state();
  if (lock.owns_lock()) lock.unlock();
  watch(call.name, true);
  counters().add_call(thread.number, call.name, {.calls = 1, .waits = thread.may_wait});
  if (error != cudaSuccess && !(flags & no_record)) thread.last_error = error;
  if (trace_on() && !call.quiet)
    log_op(format("thread %llu device %d %s(%s)%s%s%s", static_cast<unsigned long long>(thread.number),
                  thread.device, call.name, call.info.c_str(), error == cudaSuccess ? "" : " = ",
                  error == cudaSuccess ? "" : cudaGetErrorName(error), thread.waited ? ", waits" : ""));
  return error;
}

}  // namespace vgpu::rt

extern "C" void vgpu_on_call(int (*hook)(const char* name, int is_over)) { vgpu::rt::watcher = hook; }

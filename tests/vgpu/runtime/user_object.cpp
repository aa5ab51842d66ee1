// Objects of the program that graphs keep alive.
#include "runtime/graph.hpp"

using namespace vgpu::rt;

extern "C" {

cudaError_t cudaUserObjectCreate(cudaUserObject_t* out, void* pointer, cudaHostFn_t destroy,
                                 unsigned references, unsigned flags) {
  return api("cudaUserObjectCreate", plain, [&](Lock&, Call&) {
    if (!out || !destroy || references == 0 || flags != cudaUserObjectNoDestructorSync)
      return cudaErrorInvalidValue;
    *out = reinterpret_cast<cudaUserObject_t>(new UserObject{pointer, destroy, references});
    return cudaSuccess;
  });
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t handle, unsigned count) {
  return api("cudaUserObjectRetain", plain, [&](Lock&, Call&) {
    if (!handle || !count) return cudaErrorInvalidValue;
    reinterpret_cast<UserObject*>(handle)->references += count;
    return cudaSuccess;
  });
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned count) {
  return api("cudaUserObjectRelease", plain, [&](Lock&, Call&) {
    auto* object = reinterpret_cast<UserObject*>(handle);
    if (!object || !count || count > object->references) return cudaErrorInvalidValue;
    object->references -= count;
    if (object->references == 0) object->destroy(object->pointer);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t handle, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return api("cudaGraphRetainUserObject", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !object || !count) return cudaErrorInvalidValue;
    auto* user = reinterpret_cast<UserObject*>(object);
    if (!(flags & cudaGraphUserObjectMove)) user->references += count;
    graph->user_objects.push_back({user, count});
    return cudaSuccess;
  });
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t handle, cudaUserObject_t object, unsigned count) {
  return api("cudaGraphReleaseUserObject", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !object) return cudaErrorInvalidValue;
    auto* user = reinterpret_cast<UserObject*>(object);
    for (auto& [owned, held] : graph->user_objects)
      if (owned == user && held >= count) {
        held -= count;
        user->references -= std::min(user->references, count);
        if (user->references == 0) user->destroy(user->pointer);
        return cudaSuccess;
      }
    return cudaErrorInvalidValue;
  });
}
}

// Objects of the program that graphs keep alive.
#include <algorithm>

#include "runtime/graph.hpp"

namespace vgpu::rt {
namespace {

void drop(UserObject* object, unsigned count) {
  object->references -= std::min(object->references, count);
  if (object->references == 0) object->destroy(object->pointer);
}

}  // namespace

UserReferences::~UserReferences() {
  for (auto& [object, count] : held_) drop(object, count);
}

void UserReferences::add(const UserReferences& other) {
  for (const auto& [object, count] : other.held_) {
    object->references += count;
    held_.push_back({object, count});
  }
}

bool UserReferences::release(UserObject* object, unsigned count) {
  for (auto& [owned, held] : held_)
    if (owned == object && held >= count) {
      held -= count;
      drop(object, count);
      return true;
    }
  return false;
}

}  // namespace vgpu::rt

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
    drop(object, count);
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
    graph->user_objects.take(user, count);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t handle, cudaUserObject_t object, unsigned count) {
  return api("cudaGraphReleaseUserObject", plain, [&](Lock&, Call&) {
    GraphData* graph = find_graph(handle);
    if (!graph || !object) return cudaErrorInvalidValue;
    return graph->user_objects.release(reinterpret_cast<UserObject*>(object), count) ? cudaSuccess
                                                                                     : cudaErrorInvalidValue;
  });
}
}

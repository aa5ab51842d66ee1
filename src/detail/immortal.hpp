#pragma once

namespace lockstep::detail {

/// The process's only T, made at the first call and never destroyed, for threads and static objects that use
/// it while std::exit destroys other objects. Thread-safe. Use Lazy if a fork may need the object while
/// another thread makes it.
template <class T>
T& immortal() {
  static T& object = *new T();
  return object;
}

}  // namespace lockstep::detail

#pragma once

namespace lockstep::detail {

/// The process's T, made at the first call and never destroyed: what threads, and objects in static
/// variables, use whatever std::exit destroys. Thread-safe. Lazy is for what forks may need while it is made.
template <class T>
T& immortal() {
  static T& object = *new T();
  return object;
}

}  // namespace lockstep::detail

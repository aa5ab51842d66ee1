#pragma once

#include <dlfcn.h>

/// The system's own function behind one that the simulation defines: REAL(poll)(...). No guard is taken:
/// these are called before static objects are made, and lookups may be repeated.
#define REAL(name)                                                                              \
  ([] {                                                                                         \
    static constinit decltype(&::name) found = nullptr;                                         \
    if (found == nullptr) found = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name)); \
    return found;                                                                               \
  }())

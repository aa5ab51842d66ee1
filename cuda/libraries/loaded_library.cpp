#include "libraries/loaded_library.hpp"

#include <dlfcn.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::cuda {

std::string file_of(void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "the program";
}

LoadedLibrary::Handle LoadedLibrary::load() const {
  const Description& d = description_;
  Handle library{RTLD_DEFAULT};
  void* known = d.global_function != nullptr ? ::dlsym(RTLD_DEFAULT, d.global_function) : nullptr;
  if (known == nullptr) {
    // Not in the global scope, so that an engine's plugins do not find it instead of their own.
    library.handle = ::dlopen(d.file, RTLD_NOW | RTLD_LOCAL);
    if (library.handle == nullptr) {
      const std::string first = ::dlerror();
      library.handle =
          ::dlopen(lockstep::detail::concat(d.folder, "/", d.file).c_str(), RTLD_NOW | RTLD_LOCAL);
      LOCKSTEP_EXPECTS(library.handle != nullptr, Unsupported, d.needed_by, ", which is not loaded: ", first,
                       "; ", ::dlerror(), ". ", d.advice,
                       " Or name its folder in LD_LIBRARY_PATH before the program starts.");
    }
    if (d.global_function != nullptr) known = ::dlsym(library.handle, d.global_function);
  }
  if (d.check != nullptr) d.check(known);
  return library;
}

void* LoadedLibrary::function(const char* symbol) {
  void* const handle = loaded_.get([this] { return new const Handle(load()); }).handle;
  void* const found = ::dlsym(handle, symbol);
  LOCKSTEP_EXPECTS(found != nullptr, Unsupported, description_.needed_by, " with ", symbol,
                   ", which the one that is loaded does not have. ", description_.advice);
  return found;
}

}  // namespace lockstep::cuda

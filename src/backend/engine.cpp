#include <algorithm>
#include <list>
#include <mutex>
#include <string>

#include <dlfcn.h>

#include <lockstep/backend/engine.hpp>
#include <lockstep/version.hpp>

#include "detail/concat.hpp"
#include "detail/immortal.hpp"

namespace lockstep::backend {
namespace {

class Engines {
 public:
  void add(const EngineKind& kind) {
    const std::lock_guard lock(mutex_);
    if (find_locked(kind.name) == nullptr) kinds_.push_back(kind);
  }
  const EngineKind* find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    return find_locked(name);
  }

 private:
  const EngineKind* find_locked(std::string_view name) const {
    const auto found = std::ranges::find(kinds_, name, &EngineKind::name);
    return found == kinds_.end() ? nullptr : &*found;
  }

  std::mutex mutex_;
  std::list<EngineKind> kinds_;  // which stay where they are
};

// With a slash at its end. Empty: this code is in a program, or another's library, whose engines are linked.
std::string folder_of_shared_library() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<void*>(&find_engine), &here) == 0 || here.dli_fname == nullptr) return {};
  const std::string path = here.dli_fname;
  const std::size_t name = path.rfind('/') + 1;
  return path.compare(name, 15, "liblockstep.so.") == 0 ? path.substr(0, name) : std::string();
}

}  // namespace

void register_engine(const EngineKind& kind) { detail::immortal<Engines>().add(kind); }

const EngineKind* find_engine(std::string_view name) {
  Engines& engines = detail::immortal<Engines>();
  if (const EngineKind* const kind = engines.find(name)) return kind;
  const std::string folder = folder_of_shared_library();
  if (folder.empty()) return nullptr;
  // Its static initialisation registers it. It stays loaded, since an engine has threads.
  const std::string file =
      detail::concat("liblockstep_", name, ".so.", LOCKSTEP_VERSION_MAJOR, '.', LOCKSTEP_VERSION_MINOR);
  for (const std::string& path : {folder + file, file}) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) break;
  }
  return engines.find(name);
}

}  // namespace lockstep::backend

#include <algorithm>
#include <list>
#include <mutex>

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

}  // namespace

void register_engine(const EngineKind& kind) { detail::immortal<Engines>().add(kind); }

const EngineKind* find_engine(std::string_view name) {
  Engines& engines = detail::immortal<Engines>();
  if (const EngineKind* const kind = engines.find(name)) return kind;
  // Its static initialisation registers it. It stays loaded, since an engine has threads.
  const std::string file =
      detail::concat("liblockstep_", name, ".so.", LOCKSTEP_VERSION_MAJOR, '.', LOCKSTEP_VERSION_MINOR);
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return nullptr;
  return engines.find(name);
}

}  // namespace lockstep::backend

#include "libraries/nccl_library.hpp"

#include <dlfcn.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/loaded_objects.hpp"
#include "detail/warn.hpp"

namespace lockstep::cuda {
namespace {

int version_of(void* get_version) {
  int version = 0;
  if (get_version != nullptr) reinterpret_cast<decltype(&::ncclGetVersion)>(get_version)(&version);
  return version;
}

void check(void* get_version) {
  require_nccl_version(version_of(get_version), file_of(get_version));
  lockstep::detail::warn_if_several("libnccl.so", "two NCCLs");
}

}  // namespace

std::string version_text(int code) {
  const int scale = code < 10000 ? 1000 : 10000;  // NCCL_VERSION's scale until 2.8, and since 2.9
  return lockstep::detail::concat(code / scale, ".", code % scale / 100, ".", code % 100);
}

void require_nccl_version(int loaded, const std::string& file) {
  const std::string versions =
      lockstep::detail::concat("NCCL ", version_text(loaded), " is loaded (", file,
                               "), and this library was built with NCCL ", version_text(NCCL_VERSION_CODE));
  LOCKSTEP_EXPECTS(loaded >= kOldestNccl && loaded / 10000 == NCCL_MAJOR, Unsupported,
                   "A communicator of several GPUs: ", versions, ". Load that one, or at least ",
                   version_text(kOldestNccl), " of the same major version.");
  if (loaded < NCCL_VERSION_CODE)
    lockstep::detail::warn(versions + ". It may lack what has been mended since: load that one.");
}

int loaded_nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

void require_one_nccl_version(const char* operation) {
  const int used = loaded_nccl_version();
  void* const used_function = nccl_library.function("ncclGetVersion");
  for (const std::string& file : lockstep::detail::loaded_files()) {
    void* const library = ::dlopen(file.empty() ? nullptr : file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const other = ::dlsym(library, "ncclGetVersion");
    const int version = other != nullptr ? version_of(other) : used;
    const std::string other_file = file_of(other);
    ::dlclose(library);
    LOCKSTEP_EXPECTS(version == used, Unsupported, operation, ": this library uses NCCL ", version_text(used),
                     " (", file_of(used_function), "), and the process has NCCL ", version_text(version),
                     " (", other_file, ") as well, which may have made these. Load one NCCL alone.");
  }
}

constinit LoadedLibrary nccl_library({
    .needed_by = "A communicator of several GPUs needs NCCL",
    .file = "libnccl.so.2",
    .folder = LOCKSTEP_NCCL_FOLDER,
    .advice = "Install NCCL 2.24 or later, or use one GPU, which may be split into virtual devices.",
    .global_function = "ncclGetVersion",
    .check = check,
});

}  // namespace lockstep::cuda

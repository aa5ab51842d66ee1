#include "nccl_library.hpp"

#include <lockstep/error.hpp>

#include "detail/warn.hpp"

namespace lockstep::cuda {
namespace {

std::string version_text(int code) {
  const int scale = code < 10000 ? 1000 : 10000;  // as NCCL_VERSION has it, until 2.8 and since
  return lockstep::detail::concat(code / scale, ".", code % scale / 100, ".", code % 100);
}

void check(void* get_version) {
  int loaded = 0;
  if (get_version != nullptr) reinterpret_cast<decltype(&::ncclGetVersion)>(get_version)(&loaded);
  require_nccl_version(loaded, file_of(get_version));
}

}  // namespace

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

constinit LoadedLibrary nccl_library({
    .needed_by = "A communicator of several GPUs needs NCCL",
    .file = "libnccl.so.2",
    .folder = LOCKSTEP_NCCL_FOLDER,
    .advice = "Install NCCL 2.24 or later, or use one GPU, which may be split into virtual devices.",
    .global_function = "ncclGetVersion",
    .check = check,
});

}  // namespace lockstep::cuda

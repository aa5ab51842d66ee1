#include "host/blas.hpp"

#include <dlfcn.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/lazy.hpp"

namespace lockstep::host {
namespace {

template <class F>
F load(void* library, const char* name) {
  return reinterpret_cast<F>(::dlsym(library, name));
}

Blas load_blas() {
  constexpr const char* kLibrary = "libopenblas.so.0";
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never unloaded: its threads may be running
  LOCKSTEP_EXPECTS(library != nullptr, Unsupported,
                   "matmul on the host needs OpenBLAS, which is not loaded: ", ::dlerror(),
                   ". Install it, as apt install libopenblas0 does.");
  const Blas blas{load<decltype(&cblas_sgemm)>(library, "cblas_sgemm"),
                  load<decltype(&cblas_dgemm)>(library, "cblas_dgemm")};
  LOCKSTEP_EXPECTS(blas.sgemm && blas.dgemm, Unsupported, "matmul on the host: ", kLibrary,
                   " has no cblas_sgemm and cblas_dgemm. Install OpenBLAS with its C interface.");
  return blas;
}

}  // namespace

const Blas& blas() {
  static constinit detail::Lazy<const Blas> loaded("OpenBLAS, which was being loaded");
  return loaded.get([] { return new Blas(load_blas()); });
}

}  // namespace lockstep::host

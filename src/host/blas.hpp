#pragma once

#include <cblas.h>

/// OpenBLAS, loaded at first use: its threads start when it is loaded, which programs that multiply no
/// matrices should not pay for.
namespace lockstep::host {

struct Blas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
};

/// @throws Unsupported  it cannot be loaded; says why.
const Blas& blas();

}  // namespace lockstep::host

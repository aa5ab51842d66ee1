#pragma once

#include <cblas.h>

/// OpenBLAS, loaded at first use: loading it starts its threads, which programs without matrix products do
/// not need.
namespace lockstep::host {

struct Blas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
};

/// @throws Unsupported  OpenBLAS cannot be loaded; says why.
const Blas& blas();

}  // namespace lockstep::host

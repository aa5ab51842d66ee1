#pragma once

#include <cublas_v2.h>

#include "libraries/loaded_library.hpp"

/// cuBLAS's functions, under their names: the library is loaded at the first call.
namespace lockstep::cuda {

extern constinit LoadedLibrary cublas_library;

LOCKSTEP_LOADED_FUNCTION(cublas_library, cublasCreate_v2);
LOCKSTEP_LOADED_FUNCTION(cublas_library, cublasDestroy_v2);
LOCKSTEP_LOADED_FUNCTION(cublas_library, cublasGetStatusName);
LOCKSTEP_LOADED_FUNCTION(cublas_library, cublasGetStatusString);
LOCKSTEP_LOADED_FUNCTION(cublas_library, cublasSetStream_v2);
// cublasGemmEx has an older overload, so its type is spelled out.
inline constinit LoadedFunction<cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                                   int, int, const void*, const void*, cudaDataType, int,
                                                   const void*, cudaDataType, int, const void*, void*,
                                                   cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t)>
    cublasGemmEx{cublas_library, "cublasGemmEx"};

}  // namespace lockstep::cuda

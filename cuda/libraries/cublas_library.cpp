#include "libraries/cublas_library.hpp"

namespace lockstep::cuda {

constinit LoadedLibrary cublas_library({
    .needed_by = "matmul on GPUs needs cuBLAS",
    .file = LOCKSTEP_CUBLAS_FILE,
    .folder = LOCKSTEP_CUBLAS_FOLDER,
    .advice = "Install the CUDA toolkit's cuBLAS, or multiply on the host.",
});

}  // namespace lockstep::cuda

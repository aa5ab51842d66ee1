# The CUDA backend: AUTO takes it where it can be built, ON insists. Sets LOCKSTEP_HAS_CUDA, LOCKSTEP_HAS_NCCL and
# cuda_summary.
set(LOCKSTEP_HAS_CUDA 0)
set(LOCKSTEP_HAS_NCCL 0)
set(cuda_summary "off")

if(NOT LOCKSTEP_CUDA STREQUAL "OFF" AND NOT LOCKSTEP_SANITIZE)
  # nvcc need not be on the PATH.
  find_program(LOCKSTEP_NVCC nvcc HINTS "$ENV{CUDACXX}" "$ENV{CUDA_PATH}/bin" "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin
               DOC "The CUDA compiler")
  mark_as_advanced(LOCKSTEP_NVCC)
  set(cuda_summary "off, no nvcc was found on the PATH or in CUDA_PATH")
  if(LOCKSTEP_NVCC)
    if(NOT DEFINED CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER "${LOCKSTEP_NVCC}")
    endif()
    set(cuda_summary "off, ${LOCKSTEP_NVCC} has no toolkit 13.0 or later with cuBLAS beside it")
    find_package(CUDAToolkit 13.0)
  endif()
  if(LOCKSTEP_NVCC AND CUDAToolkit_FOUND AND TARGET CUDA::cublas)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING "GPU architectures: the last one also as PTX")
    endif()
    enable_language(CUDA)
    set(LOCKSTEP_HAS_CUDA 1)
    list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
    set(cuda_summary "on, CUDA ${CUDAToolkit_VERSION} for ${architectures}")
  endif()
endif()
if(LOCKSTEP_CUDA STREQUAL "ON" AND NOT LOCKSTEP_HAS_CUDA)
  message(FATAL_ERROR "LOCKSTEP_CUDA=ON, but the CUDA backend is ${cuda_summary}. "
                      "Install the CUDA toolkit, name it with CUDA_PATH, or use AUTO or OFF.")
endif()

if(LOCKSTEP_HAS_CUDA AND NOT LOCKSTEP_NCCL STREQUAL "OFF")
  # Older ones reach for peers' memory that pools keep to themselves: cuda/nccl_library.hpp.
  find_package(NCCL 2.24)
  if(NCCL_FOUND)
    set(LOCKSTEP_HAS_NCCL 1)
    string(APPEND cuda_summary ", NCCL ${NCCL_VERSION}")
  else()
    string(APPEND cuda_summary ", no NCCL 2.24 or later was found")
  endif()
endif()
if(LOCKSTEP_NCCL STREQUAL "ON" AND NOT LOCKSTEP_HAS_NCCL)
  message(FATAL_ERROR "LOCKSTEP_NCCL=ON, but no NCCL 2.24 or later was found, and the CUDA backend is ${cuda_summary}. "
                      "Install NCCL 2.24 or later, name its prefix with NCCL_ROOT, or use AUTO or OFF.")
endif()

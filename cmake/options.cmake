set(LOCKSTEP_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if a toolkit is found), ON or OFF")
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_NCCL AUTO CACHE STRING "Let the CUDA backend use NCCL: AUTO (if it is found), ON or OFF")
set_property(CACHE LOCKSTEP_NCCL PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_MPI AUTO CACHE STRING "Build the engine mpi between processes: AUTO (where MPI is found), ON or OFF")
set_property(CACHE LOCKSTEP_MPI PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_GLOO AUTO CACHE STRING "Build the engine gloo between processes: AUTO (where Gloo is found), ON or OFF")
set_property(CACHE LOCKSTEP_GLOO PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_LIBTORCH AUTO CACHE STRING
    "Build the tests and the example of LibTorch's adapter: AUTO (where LibTorch is found), ON or OFF")
set_property(CACHE LOCKSTEP_LIBTORCH PROPERTY STRINGS AUTO ON OFF)
set(LOCKSTEP_FORMATS AUTO CACHE STRING
    "Read the file formats that need other libraries: AUTO (those whose libraries are found), ON or OFF")
set_property(CACHE LOCKSTEP_FORMATS PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_CUDA_RUNTIME Shared CACHE STRING
    "Link CUDA's runtime as Shared, or as Static for programs that must start without CUDA")
set_property(CACHE LOCKSTEP_CUDA_RUNTIME PROPERTY STRINGS Shared Static)

option(LOCKSTEP_BUILD_TESTS "Build the tests (needs Catch2 3.3)" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_BUILD_BENCHMARKS "Build lockstep_bench (needs CLI11)" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_BUILD_EXAMPLES "Build the examples (needs CLI11)" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_BUILD_DOCS "Add the target docs, the documentation as a site (needs Doxygen 1.9.4 and more)" OFF)
option(LOCKSTEP_INSTALL "Make install rules and the CMake package" ${PROJECT_IS_TOP_LEVEL})

option(LOCKSTEP_FUZZ "Build the fuzzers in tests/fuzz, and no other tests (clang)" OFF)

set(LOCKSTEP_FUZZ_SANITIZERS "address,undefined" CACHE STRING "Sanitizers of the fuzzers; empty: none, for more inputs")

option(LOCKSTEP_WERROR "Treat warnings as errors" OFF)

set(LOCKSTEP_SANITIZE "" CACHE STRING "Build under a sanitizer: address, undefined, thread, or empty for none")
set_property(CACHE LOCKSTEP_SANITIZE PROPERTY STRINGS "" address undefined thread)

set(LOCKSTEP_VGPU AUTO CACHE STRING
    "Build virtual GPUs and run the CUDA tests on them: AUTO (if the CUDA backend and the tests are built), ON or OFF")
set_property(CACHE LOCKSTEP_VGPU PROPERTY STRINGS AUTO ON OFF)
set(LOCKSTEP_VGPU_SEEDS 1 CACHE STRING "Number of seeds of the virtual GPUs' scheduler with which the CUDA tests run")

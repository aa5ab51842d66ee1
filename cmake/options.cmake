set(LOCKSTEP_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where a toolkit is found), ON or OFF")
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_NCCL AUTO CACHE STRING "Let the CUDA backend use NCCL: AUTO (where it is found), ON or OFF")
set_property(CACHE LOCKSTEP_NCCL PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_CUDA_RUNTIME Shared CACHE STRING
    "CUDA's runtime in the library: Shared, or Static, for programs that start where nothing of CUDA is installed")
set_property(CACHE LOCKSTEP_CUDA_RUNTIME PROPERTY STRINGS Shared Static)

option(LOCKSTEP_BUILD_TESTS "Build the tests (needs Catch2 3.3)" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_BUILD_BENCHMARKS "Build lockstep_bench (needs CLI11)" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_BUILD_EXAMPLES "Build the examples (needs CLI11)" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_INSTALL "Make install rules and the CMake package" ${PROJECT_IS_TOP_LEVEL})

option(LOCKSTEP_FUZZ "Build the fuzzers in tests/fuzz, and nothing else of the tests (clang)" OFF)

option(LOCKSTEP_WERROR "Treat warnings as errors" OFF)

set(LOCKSTEP_SANITIZE "" CACHE STRING "Build under a sanitizer: address, undefined, thread, or empty for none")
set_property(CACHE LOCKSTEP_SANITIZE PROPERTY STRINGS "" address undefined thread)

set(LOCKSTEP_VGPU AUTO CACHE STRING
    "Build virtual GPUs and run the CUDA tests on them: AUTO (where the CUDA backend and the tests are built), ON or OFF")
set_property(CACHE LOCKSTEP_VGPU PROPERTY STRINGS AUTO ON OFF)
set(LOCKSTEP_VGPU_SEEDS 1 CACHE STRING "How many seeds of the virtual GPUs' scheduler the CUDA tests run with")

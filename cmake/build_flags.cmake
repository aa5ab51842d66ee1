# lockstep_build has the compile options of everything in this repository. It is linked privately, so that consumers do
# not get them.
add_library(lockstep_build INTERFACE)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

target_compile_features(lockstep_build INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)

target_include_directories(lockstep_build INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/include")

target_compile_options(lockstep_build INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow>
  # Designated initialisers fill aggregates and name only the fields that differ from the defaults.
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
  # clang warns about a loop that it may vectorise but does not.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-pass-failed>
  # A fused multiply-add rounds once instead of twice, so that results would differ between compilers.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_build INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(LOCKSTEP_SANITIZE)
  if(NOT LOCKSTEP_SANITIZE MATCHES "^(address|undefined|thread)$")
    message(FATAL_ERROR "LOCKSTEP_SANITIZE is '${LOCKSTEP_SANITIZE}'. Use address, undefined, thread, or leave it empty.")
  endif()
  set(LOCKSTEP_SANITIZE_FLAG "-fsanitize=${LOCKSTEP_SANITIZE}")
  target_compile_options(lockstep_build INTERFACE
    "${LOCKSTEP_SANITIZE_FLAG}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_build INTERFACE "${LOCKSTEP_SANITIZE_FLAG}")
endif()

if(LOCKSTEP_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "LOCKSTEP_FUZZ needs clang's libFuzzer, but the compiler is ${CMAKE_CXX_COMPILER_ID}. "
                        "Configure with -DCMAKE_CXX_COMPILER=clang++, as the preset fuzz does.")
  endif()
  if(LOCKSTEP_FUZZ_SANITIZERS)
    set(LOCKSTEP_SANITIZE_FLAG "-fsanitize=${LOCKSTEP_FUZZ_SANITIZERS}")
  endif()
  target_compile_options(lockstep_build INTERFACE
    -fsanitize=fuzzer-no-link ${LOCKSTEP_SANITIZE_FLAG} -fno-omit-frame-pointer -fno-sanitize-recover=all
    # libFuzzer's name for builds without checksums; mutated inputs would never pass a checksum.
    -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
  target_link_options(lockstep_build INTERFACE ${LOCKSTEP_SANITIZE_FLAG})
endif()

# CMake 3.25 does not know nvcc's C++20. Device code calls the constexpr functions of dtype.hpp, so that it converts as
# the host does; for the same reason it does not contract multiply-adds.
target_compile_options(lockstep_build INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-std=c++20 --expt-relaxed-constexpr --fmad=false>"
  # Virtual GPUs read uncompressed PTX.
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--no-compress -Xcompiler=-Wall,-Wextra>")

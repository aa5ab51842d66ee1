include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")

install(TARGETS lockstep EXPORT lockstep-targets FILE_SET HEADERS)
if(LOCKSTEP_HAS_CUDA)
  install(TARGETS lockstep_cuda_interop EXPORT lockstep-targets FILE_SET HEADERS)
endif()
install(EXPORT lockstep-targets NAMESPACE lockstep:: DESTINATION "${package_dir}")

# A component of the package each, with targets of its own.
set(mpi_dependency [[include("${CMAKE_CURRENT_LIST_DIR}/mpi_library.cmake")
  if(NOT TARGET lockstep::mpi_library)
    set(lockstep_mpi_FOUND FALSE)
    set(lockstep_remedy_mpi "It needs MPI 3.0 or later, which is not found (Debian: libopenmpi-dev).")
    return()
  endif()]])
set(gloo_dependency [[find_package(Gloo QUIET CONFIG)
  if(NOT TARGET gloo)
    set(lockstep_gloo_FOUND FALSE)
    set(lockstep_remedy_gloo "It needs Gloo, which is not found (Debian: libgloo-dev).")
    return()
  endif()]])
foreach(engine IN LISTS lockstep_engines)
  install(TARGETS lockstep_${engine} EXPORT lockstep-${engine}-targets)
  install(EXPORT lockstep-${engine}-targets NAMESPACE lockstep:: DESTINATION "${package_dir}")
  set(engine_dependency "${${engine}_dependency}")
  configure_file(cmake/lockstep-engine.cmake.in "${PROJECT_BINARY_DIR}/lockstep-${engine}.cmake" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/lockstep-${engine}.cmake" DESTINATION "${package_dir}")
endforeach()
if(mpi IN_LIST lockstep_engines AND NOT BUILD_SHARED_LIBS)
  install(FILES cmake/mpi_library.cmake DESTINATION "${package_dir}")
endif()

if(TARGET lockstep_bench)
  install(TARGETS lockstep_bench)
endif()
install(FILES LICENSE README.md .github/CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
foreach(folder benchmarks cmake include/lockstep include/lockstep/cluster include/lockstep/collectives include/lockstep/input
               include/lockstep/optim include/lockstep/strategy tests/hardware tests/vgpu)
  install(FILES ${folder}/README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}")
endforeach()

configure_package_config_file(
  cmake/lockstep-config.cmake.in "${PROJECT_BINARY_DIR}/lockstep-config.cmake" INSTALL_DESTINATION "${package_dir}")
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstep-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lockstep-config.cmake" "${PROJECT_BINARY_DIR}/lockstep-config-version.cmake"
        DESTINATION "${package_dir}")

# The virtual GPUs are a separate component, which `cmake --install build --component vgpu` adds.
if(LOCKSTEP_HAS_VGPU)
  set(vgpu_targets vgpu_cublas vgpu_cublasLt vgpu_cudart)
  if(TARGET vgpu_nccl)
    list(APPEND vgpu_targets vgpu_nccl)
  endif()
  install(TARGETS ${vgpu_targets}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/lockstep/vgpu" COMPONENT vgpu NAMELINK_SKIP EXCLUDE_FROM_ALL)

  file(RELATIVE_PATH VGPU_LIBRARY_DIR
       "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/lockstep/vgpu")
  configure_file(tests/vgpu/vgpu-run.in "${PROJECT_BINARY_DIR}/installed/vgpu-run" @ONLY)
  install(PROGRAMS "${PROJECT_BINARY_DIR}/installed/vgpu-run"
          DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT vgpu EXCLUDE_FROM_ALL)

  configure_package_config_file(
    cmake/lockstep-vgpu.cmake.in "${PROJECT_BINARY_DIR}/lockstep-vgpu.cmake" INSTALL_DESTINATION "${package_dir}"
    PATH_VARS CMAKE_INSTALL_BINDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  install(FILES "${PROJECT_BINARY_DIR}/lockstep-vgpu.cmake"
          DESTINATION "${package_dir}" COMPONENT vgpu EXCLUDE_FROM_ALL)
endif()

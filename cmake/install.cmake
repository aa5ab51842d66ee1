include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")

# Parts of the installation, for `cmake --install build --component ...` and packages: runtime, and with shared
# libraries each engine's; bench; vgpu, which is installed only when it is asked for; everything else is dev.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

install(TARGETS lockstep EXPORT lockstep-targets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev ARCHIVE COMPONENT dev FILE_SET HEADERS)
install(EXPORT lockstep-targets NAMESPACE lockstep:: DESTINATION "${package_dir}")

# lockstep_install_component(name dependency): the component of the package that has the target lockstep::name, with the
# commands that find what it depends on.
function(lockstep_install_component component component_dependency)
  install(EXPORT lockstep-${component}-targets NAMESPACE lockstep:: DESTINATION "${package_dir}")
  configure_file(cmake/lockstep-component.cmake.in "${PROJECT_BINARY_DIR}/lockstep-${component}.cmake" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/lockstep-${component}.cmake" DESTINATION "${package_dir}")
endfunction()

# host and cuda say what lockstep::lockstep itself has.
set(lockstep_own_components host)
if(LOCKSTEP_HAS_CUDA)
  list(APPEND lockstep_own_components cuda)
  install(TARGETS lockstep_cuda_interop EXPORT lockstep-cuda_interop-targets FILE_SET HEADERS)
  lockstep_install_component(cuda_interop [[find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND)
  set(lockstep_cuda_interop_FOUND FALSE)
  set(lockstep_remedy_cuda_interop
      "It needs the CUDA toolkit, which is not found. Install it, or name it with CUDAToolkit_ROOT.")
  return()
endif()]])
endif()
foreach(component IN LISTS lockstep_own_components)
  file(WRITE "${PROJECT_BINARY_DIR}/lockstep-${component}.cmake"
       "# The component ${component}: lockstep::lockstep has that backend.\n")
  install(FILES "${PROJECT_BINARY_DIR}/lockstep-${component}.cmake" DESTINATION "${package_dir}")
endforeach()

# What a static engine is linked with; a shared one brings it.
set(mpi_dependency)
set(gloo_dependency)
if(NOT BUILD_SHARED_LIBS)
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
endif()
foreach(engine IN LISTS lockstep_engines)
  install(TARGETS lockstep_${engine} EXPORT lockstep-${engine}-targets
    LIBRARY COMPONENT ${engine} NAMELINK_COMPONENT dev ARCHIVE COMPONENT dev)
  lockstep_install_component(${engine} "${${engine}_dependency}")
endforeach()
if(mpi IN_LIST lockstep_engines AND NOT BUILD_SHARED_LIBS)
  install(FILES cmake/mpi_library.cmake DESTINATION "${package_dir}")
endif()

if(TARGET lockstep_bench)
  install(TARGETS lockstep_bench RUNTIME COMPONENT bench)
  install(FILES packaging/man/lockstep_bench.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT bench)
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT license)
install(FILES README.md .github/CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
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
include(pkg_config)

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
  install(FILES packaging/man/vgpu-run.1
          DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT vgpu EXCLUDE_FROM_ALL)

  configure_package_config_file(
    cmake/lockstep-vgpu.cmake.in "${PROJECT_BINARY_DIR}/lockstep-vgpu.cmake" INSTALL_DESTINATION "${package_dir}"
    PATH_VARS CMAKE_INSTALL_BINDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  install(FILES "${PROJECT_BINARY_DIR}/lockstep-vgpu.cmake"
          DESTINATION "${package_dir}" COMPONENT vgpu EXCLUDE_FROM_ALL)
endif()

if(PROJECT_IS_TOP_LEVEL)
  include(package)
endif()

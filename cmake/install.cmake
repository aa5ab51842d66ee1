include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")

install(TARGETS lockstep EXPORT lockstep-targets FILE_SET HEADERS)
if(LOCKSTEP_HAS_CUDA)
  install(TARGETS lockstep_cuda_interop EXPORT lockstep-targets FILE_SET HEADERS)
endif()
if(LOCKSTEP_HAS_NCCL)
  install(FILES cmake/FindNCCL.cmake DESTINATION "${package_dir}")
endif()
install(EXPORT lockstep-targets NAMESPACE lockstep:: DESTINATION "${package_dir}")

configure_package_config_file(
  cmake/lockstep-config.cmake.in "${PROJECT_BINARY_DIR}/lockstep-config.cmake" INSTALL_DESTINATION "${package_dir}")
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstep-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lockstep-config.cmake" "${PROJECT_BINARY_DIR}/lockstep-config-version.cmake"
        DESTINATION "${package_dir}")

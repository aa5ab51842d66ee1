# This port was never run. It builds the sources that it lies in; a registry's port would fetch a release instead.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS features
  FEATURES
    cuda LOCKSTEP_CUDA
    mpi LOCKSTEP_MPI
)
vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${features}
    "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
    -DLOCKSTEP_GLOO=OFF
    -DLOCKSTEP_FORMATS=OFF
    -DLOCKSTEP_BUILD_TESTS=OFF
    -DLOCKSTEP_BUILD_BENCHMARKS=OFF
    -DLOCKSTEP_BUILD_EXAMPLES=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/lockstep)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")

# lockstep.pc, and one file for each engine, as lockstep-mpi.pc. They find the rest of the installation from where they
# are. What a static library needs is public in them: nothing can be linked without it, and `--static`, which would add
# private requirements, also wants static libraries of everything below (Debian's hwloc then needs libudev).
set(pc_folder "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH pc_prefix "${pc_folder}" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
file(RELATIVE_PATH pc_includedir "${pc_folder}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")

function(lockstep_install_pc pc_name pc_description pc_requires pc_libs)
  configure_file(cmake/lockstep.pc.in "${PROJECT_BINARY_DIR}/${pc_name}.pc.in" @ONLY)
  # Some libraries are known by targets alone.
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/${pc_name}.pc" INPUT "${PROJECT_BINARY_DIR}/${pc_name}.pc.in")
  install(FILES "${PROJECT_BINARY_DIR}/${pc_name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

set(pc_requires)
set(pc_libs "-llockstep")
if(NOT BUILD_SHARED_LIBS)
  set(pc_requires "libhwy hwloc zlib")
  foreach(format IN LISTS lockstep_format_modules)
    string(REGEX REPLACE "^.*:" " " module "${format}")
    string(APPEND pc_requires "${module}")
  endforeach()
  string(APPEND pc_libs " -pthread -ldl")
  if(LOCKSTEP_HAS_CUDA)
    string(APPEND pc_libs " $<TARGET_LINKER_FILE:${LOCKSTEP_CUDART}> -lrt")
  endif()
endif()
lockstep_install_pc(lockstep "${PROJECT_DESCRIPTION} (C++20)" "${pc_requires}" "${pc_libs}")

foreach(engine IN LISTS lockstep_engines)
  set(pc_libs "-llockstep_${engine}")
  if(NOT BUILD_SHARED_LIBS)
    string(PREPEND pc_libs "-Wl,--undefined=lockstep_${engine}_engine ")  # as src/engines/CMakeLists.txt says
    set(libraries ${lockstep_mpi_libraries})
    if(engine STREQUAL "gloo")
      set(libraries "-L$<TARGET_LINKER_FILE_DIR:gloo> -lgloo")
    endif()
    list(JOIN libraries " " libraries)
    string(APPEND pc_libs " ${libraries}")
  endif()
  lockstep_install_pc(lockstep-${engine} "The engine ${engine} of lockstep, between processes"
    "lockstep = ${PROJECT_VERSION}" "${pc_libs}")
endforeach()

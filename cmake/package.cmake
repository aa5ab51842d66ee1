# Debian packages, one for each part of the installation: cpack -G DEB --config build/package/CPackConfig.cmake. Whom to
# write to stands in packaging/debian/changelog, and the version must be the project's.
file(STRINGS packaging/debian/changelog changelog)
if(NOT "${changelog}" MATCHES "^lockstep \\(${PROJECT_VERSION}\\).* -- ([^>]+>)")
  message(FATAL_ERROR "packaging/debian/changelog does not begin with version ${PROJECT_VERSION}. Add an entry for it.")
endif()
set(CPACK_PACKAGE_CONTACT "${CMAKE_MATCH_1}")
foreach(recipe vcpkg/lockstep/vcpkg.json spack/packages/lockstep/package.py)
  file(STRINGS packaging/${recipe} version REGEX "^ *\"?version\"?[:(]")
  if(NOT version MATCHES "\"${PROJECT_VERSION}[-\"]")
    message(FATAL_ERROR "packaging/${recipe} has another version than ${PROJECT_VERSION}.")
  endif()
endforeach()
set(CPACK_PACKAGE_VENDOR lockstep)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # the packages have their own

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/src")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/packaging/debian/prepare.cmake")
set(CPACK_COMPONENTS_ALL)

# lockstep_add_deb(component package section summary text [dependency...])
macro(lockstep_add_deb component package section summary text)
  string(TOUPPER ${component} name)
  set(depends ${ARGN})
  list(JOIN depends ", " CPACK_DEBIAN_${name}_PACKAGE_DEPENDS)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME "${package}")
  set(CPACK_DEBIAN_${name}_PACKAGE_SECTION "${section}")
  set(CPACK_DEBIAN_${name}_DESCRIPTION "${summary}
lockstep keeps N replicas of a computation in step: strategies, mirrored
values, collectives and distributed input for C++20, on CPUs and GPUs.
.
${text}")
  list(APPEND CPACK_COMPONENTS_ALL ${component})
endmacro()

# lockstep_add_library_deb(component library text [dependency...]): of a shared library, named after its SONAME.
macro(lockstep_add_library_deb component library text)
  string(REPLACE "_" "-" library_package "${library}${so_version}")
  lockstep_add_deb(${component} ${library_package} libs "runtime of data-parallel replicas - ${component}"
    "${text}" ${ARGN})
  set(folder "${PROJECT_BINARY_DIR}/packaging/${component}")
  file(WRITE "${folder}/shlibs" "${library} ${so_version} ${library_package} (>= ${PROJECT_VERSION})\n")
  file(WRITE "${folder}/triggers" "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_${name}_PACKAGE_CONTROL_EXTRA "${folder}/shlibs;${folder}/triggers")
  list(APPEND dev_depends "${library_package} (= ${PROJECT_VERSION})")
endmacro()

set(so_version "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(dev_depends)
if(BUILD_SHARED_LIBS)
  lockstep_add_library_deb(runtime liblockstep "This package has the shared library.")
  foreach(engine IN LISTS lockstep_engines)
    lockstep_add_library_deb(${engine} liblockstep_${engine}
      "This package has the library that moves bytes between processes by ${engine}."
      "liblockstep${so_version} (= ${PROJECT_VERSION})")
  endforeach()
else()
  set(dev_depends libhwloc-dev libhwy-dev pkg-config zlib1g-dev ${lockstep_format_packages})
  set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libgloo-dev, libopenmpi-dev")
endif()
lockstep_add_deb(dev liblockstep-dev libdevel "runtime of data-parallel replicas - development"
  "This package has the headers, the library to link with, the files for CMake
and pkg-config, and the guides." ${dev_depends})
if(TARGET lockstep_bench)
  lockstep_add_deb(bench lockstep-bench utils "benchmark of collectives, as nccl-tests"
    "This package has lockstep_bench, which measures collectives on CPUs, GPUs and
several processes.")
endif()
if(LOCKSTEP_HAS_VGPU)
  lockstep_add_deb(vgpu lockstep-vgpu devel "virtual GPUs for tests of CUDA programs"
    "This package has vgpu-run, which runs CUDA programs where no GPU is, and
reports races, leaks and deadlocks.")
endif()
foreach(name RUNTIME DEV BENCH)  # OpenBLAS is loaded at the first product of matrices
  set(CPACK_DEBIAN_${name}_PACKAGE_RECOMMENDS libopenblas0)
endforeach()
include(CPack)

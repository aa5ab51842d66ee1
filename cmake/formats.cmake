# The file formats that other libraries read: LOCKSTEP_FORMATS=AUTO has those whose libraries are found, ON insists on all
# but Parquet, which Debian has not. Sets
#   lockstep_format_libraries    what lockstep links
#   lockstep_format_definitions  LOCKSTEP_HAS_<format> for each
#   lockstep_format_modules      <target>:<module> of pkg-config, for the package's consumers
#   lockstep_format_packages     Debian's packages of these
#   formats_summary
find_package(PkgConfig REQUIRED)
set(lockstep_format_libraries)
set(lockstep_format_definitions)
set(lockstep_format_modules)
set(lockstep_format_packages)
set(formats_summary)

if(NOT LOCKSTEP_FORMATS MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "LOCKSTEP_FORMATS is '${LOCKSTEP_FORMATS}'. Use AUTO, ON or OFF.")
endif()

function(lockstep_add_format name target module package)
  set(summary "${name} off")
  if(NOT LOCKSTEP_FORMATS STREQUAL "OFF")
    pkg_check_modules(${target} QUIET IMPORTED_TARGET ${module})
    if(TARGET PkgConfig::${target})
      list(APPEND lockstep_format_libraries PkgConfig::${target})
      list(APPEND lockstep_format_definitions LOCKSTEP_HAS_${target})
      list(APPEND lockstep_format_modules ${target}:${module})
      if(NOT target STREQUAL "PARQUET")
        list(APPEND lockstep_format_packages ${package})
      endif()
      set(summary "${name} on, ${module} ${${target}_VERSION}")
    elseif(LOCKSTEP_FORMATS STREQUAL "ON" AND NOT target STREQUAL "PARQUET")
      message(FATAL_ERROR "LOCKSTEP_FORMATS=ON, but ${module} is not found, which ${name} needs. "
                          "Install it (Debian: ${package}), or use AUTO or OFF.")
    else()
      set(summary "${name} off, no ${module} was found (Debian: ${package})")
    endif()
  endif()
  list(APPEND formats_summary "${summary}")
  foreach(variable lockstep_format_libraries lockstep_format_definitions lockstep_format_modules lockstep_format_packages formats_summary)
    set(${variable} "${${variable}}" PARENT_SCOPE)
  endforeach()
endfunction()

lockstep_add_format(TFRecord ISAL libisal libisal-dev)
lockstep_add_format(zstd ZSTD libzstd libzstd-dev)
lockstep_add_format(tar ARCHIVE libarchive libarchive-dev)
lockstep_add_format(JPEG JPEG libjpeg libjpeg-dev)
lockstep_add_format(PNG PNG libpng libpng-dev)
lockstep_add_format(Parquet PARQUET parquet "libparquet-dev of Arrow's repository")

# The engines between processes, each a library of its own: AUTO builds one where what it needs is found, ON insists. Sets
# lockstep_engines, the names of those that are built, and mpi_summary and gloo_summary.
set(lockstep_engines)
set(mpi_summary "off")
set(gloo_summary "off")

# Sanitizers take what they cannot see in these libraries for faults.
if(LOCKSTEP_MPI STREQUAL "ON" OR (LOCKSTEP_MPI STREQUAL "AUTO" AND NOT LOCKSTEP_SANITIZE))
  include(mpi_library)
  set(mpi_summary "off, no MPI 3.0 or later was found")
  if(TARGET lockstep::mpi_library)
    list(APPEND lockstep_engines mpi)
    set(mpi_summary "on, MPI ${MPI_CXX_VERSION}")
  endif()
endif()

if(LOCKSTEP_GLOO STREQUAL "ON" OR (LOCKSTEP_GLOO STREQUAL "AUTO" AND NOT LOCKSTEP_SANITIZE))
  find_package(Gloo QUIET CONFIG)
  set(gloo_summary "off, no Gloo was found")
  if(TARGET gloo)
    list(APPEND lockstep_engines gloo)
    set(gloo_summary "on, Gloo ${Gloo_VERSION}")
  endif()
endif()

foreach(engine mpi gloo)
  string(TOUPPER ${engine} option)
  if(NOT LOCKSTEP_${option} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "LOCKSTEP_${option} is '${LOCKSTEP_${option}}'. Use AUTO, ON or OFF.")
  endif()
  if(LOCKSTEP_${option} STREQUAL "ON" AND NOT engine IN_LIST lockstep_engines)
    message(FATAL_ERROR "LOCKSTEP_${option}=ON, but the engine ${engine} is ${${engine}_summary}. "
                        "Install it (Debian: libopenmpi-dev, libgloo-dev), or use AUTO or OFF.")
  endif()
endforeach()

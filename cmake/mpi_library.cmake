# Target lockstep::mpi_library: MPI's interface for C, which FindMPI gives a project without C together with the one for C++.
# Also for whoever links the static library lockstep::mpi.
if(NOT TARGET lockstep::mpi_library)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.0 QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(lockstep_mpi_libraries ${MPI_CXX_LIBRARIES})
    list(FILTER lockstep_mpi_libraries EXCLUDE REGEX "mpi_?cxx")
    add_library(lockstep::mpi_library INTERFACE IMPORTED)
    set_target_properties(lockstep::mpi_library PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${MPI_CXX_INCLUDE_DIRS}"
      INTERFACE_LINK_LIBRARIES "${lockstep_mpi_libraries}")
  endif()
endif()

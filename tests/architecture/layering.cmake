# Fails where a file includes one of a floor above its own, or names CUDA or NCCL outside cuda/:
#   cmake -DROOT=<source folder> -P layering.cmake
# A file belongs to the first floor whose pattern its path matches; README.md draws them.
cmake_minimum_required(VERSION 3.25)

set(lockstep "^(include/lockstep|src)")
set(floors backends vocabulary interface training strategy input values objects all)
set(floor_backends "^(cuda|src/host|include/lockstep/host)/|/cuda/cuda_backend")
set(floor_vocabulary
    "${lockstep}/(arithmetic/|detail/|backend/handles|(error|log|dtype|shape|device|reduce_op|scalar|tensor_view|memory_stats|ascii)\\.)")
set(floor_interface "${lockstep}/backend/")
set(floor_training "${lockstep}/(optim|metrics|checkpoint)/")
set(floor_strategy "${lockstep}/strategy/")
set(floor_input "${lockstep}/(input|cluster)/")
set(floor_values "${lockstep}/(values|collectives)/")
set(floor_all "/lockstep\\.hpp$|/default_backends\\.cpp$")
set(floor_objects "${lockstep}/([^/]*$|cuda/interop)")

set(height_vocabulary 0)
set(height_interface 1)
set(height_backends 2)
set(height_objects 2)  # beside the backends: neither includes the other
set(height_values 3)
set(height_input 4)
set(height_strategy 5)
set(height_training 6)
set(height_all 7)

function(find_floor path result)
  foreach(floor all ${floors})
    if(path MATCHES "${floor_${floor}}")
      set(${result} ${floor} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${path} is on no floor. Add its folder to ${CMAKE_CURRENT_LIST_FILE}.")
endfunction()

# Names of CUDA's that the host's part may have: what an engine hands over, by opaque types.
set(opaque "struct (CUstream_st|ncclComm);|(CUstream_st\\*|ncclComm\\* const)|lockstep/cuda/cuda_backend.hpp")
set(cuda_names "#include <(cuda|nccl|cublas)|[^a-z_:]cuda[A-Z]|nccl[A-Z]|cublas[A-Z]|CU[a-z]+_st")

file(GLOB_RECURSE files RELATIVE "${ROOT}"
     "${ROOT}/include/*.hpp" "${ROOT}/src/*.hpp" "${ROOT}/src/*.cpp" "${ROOT}/cuda/*.hpp" "${ROOT}/cuda/*.cpp"
     "${ROOT}/cuda/*.cuh" "${ROOT}/cuda/*.cu")
set(faults 0)
foreach(file IN LISTS files)
  find_floor("${file}" floor)
  file(STRINGS "${ROOT}/${file}" lines REGEX "#include|cuda|nccl|cublas|CU[a-z]+_st")
  foreach(line IN LISTS lines)
    if(line MATCHES "#include [<\"]([^>\"]+)[>\"]")
      set(included "${CMAKE_MATCH_1}")
      foreach(folder include src cuda)
        if(EXISTS "${ROOT}/${folder}/${included}")
          find_floor("${folder}/${included}" other)
          if(height_${other} GREATER height_${floor} OR
             (height_${other} EQUAL height_${floor} AND NOT other STREQUAL floor))
            message(SEND_ERROR "${file} (${floor}) includes ${included} (${other}): includes point downwards only.")
          endif()
        endif()
      endforeach()
    endif()
    if(NOT file MATCHES "^cuda/|/cuda/" AND line MATCHES "${cuda_names}" AND NOT line MATCHES "${opaque}")
      message(SEND_ERROR "${file} names CUDA or NCCL, which only cuda/ and cuda/interop.hpp may: ${line}")
    endif()
  endforeach()
endforeach()

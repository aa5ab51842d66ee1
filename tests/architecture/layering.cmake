# Fails where a file includes one of a layer above its own, another header of src/strategy than its doors from outside
# it, or names CUDA or NCCL outside cuda/:
#   cmake -DROOT=<source folder> -P layering.cmake
# A file belongs to the first layer whose pattern its path matches; README.md draws them.
cmake_minimum_required(VERSION 3.25)

set(lockstep "^(include/lockstep|src)")
set(layers backends vocabulary interface workers training strategy input values objects all)
set(layer_backends "^(cuda|src/host|src/engines|include/lockstep/host)/|/cuda/cuda_backend")
set(layer_vocabulary
    "${lockstep}/(arithmetic/|detail/|trace/|backend/handles|(communication|error|log|report|dtype|shape|device|reduce_op|scalar|tensor_view|memory_stats|trace|ascii)\\.)")
set(layer_interface "${lockstep}/backend/")
set(layer_workers "${lockstep}/workers/")
set(layer_training "${lockstep}/(optim|metrics|checkpoint|integrations)/")
set(layer_strategy "${lockstep}/strategy/")
set(layer_input "${lockstep}/(input|cluster)/")
set(layer_values "${lockstep}/(values|collectives)/")
set(layer_all "/lockstep\\.hpp$|/default_backends\\.cpp$")
set(layer_objects "${lockstep}/([^/]*$|dlpack/|cuda/interop)")

set(height_vocabulary 0)
set(height_interface 1)
set(height_workers 2)
set(height_backends 3)
set(height_objects 3)  # beside the backends: neither includes the other
set(height_values 4)
set(height_input 5)
set(height_strategy 6)
set(height_training 7)
set(height_all 8)

function(find_layer path result)
  foreach(layer all ${layers})
    if(path MATCHES "${layer_${layer}}")
      set(${result} ${layer} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${path} is in no layer. Add its folder to ${CMAKE_CURRENT_LIST_FILE}.")
endfunction()

# The private headers of src/strategy that other folders include.
set(doors strategy/strategy_access.hpp strategy/variable/variable_access.hpp strategy/context/default_strategy.hpp)

# Names of CUDA's that the host's part may have: what an engine hands over, by opaque types.
set(opaque "struct (CUstream_st|ncclComm);|(CUstream_st\\*|ncclComm\\* const)|lockstep/cuda/cuda_backend.hpp")
set(cuda_names "#include <(cuda|nccl|cublas)|[^a-z_:]cuda[A-Z]|nccl[A-Z]|cublas[A-Z]|CU[a-z]+_st")

file(GLOB_RECURSE files RELATIVE "${ROOT}"
     "${ROOT}/include/*.hpp" "${ROOT}/src/*.hpp" "${ROOT}/src/*.cpp" "${ROOT}/cuda/*.hpp" "${ROOT}/cuda/*.cpp"
     "${ROOT}/cuda/*.cuh" "${ROOT}/cuda/*.cu")
set(faults 0)
foreach(file IN LISTS files)
  find_layer("${file}" layer)
  file(STRINGS "${ROOT}/${file}" lines REGEX "#include|cuda|nccl|cublas|CU[a-z]+_st")
  foreach(line IN LISTS lines)
    if(line MATCHES "#include [<\"]([^>\"]+)[>\"]")
      set(included "${CMAKE_MATCH_1}")
      if(included MATCHES "^strategy/" AND NOT file MATCHES "^src/strategy/" AND NOT included IN_LIST doors)
        message(SEND_ERROR "${file} includes ${included}. Include one of ${doors}.")
      endif()
      foreach(folder include src cuda)
        if(EXISTS "${ROOT}/${folder}/${included}")
          find_layer("${folder}/${included}" other)
          if(height_${other} GREATER height_${layer} OR
             (height_${other} EQUAL height_${layer} AND NOT other STREQUAL layer))
            message(SEND_ERROR "${file} (${layer}) includes ${included} (${other}): includes point downwards only.")
          endif()
        endif()
      endforeach()
    endif()
    if(NOT file MATCHES "^cuda/|/cuda/" AND line MATCHES "${cuda_names}" AND NOT line MATCHES "${opaque}")
      message(SEND_ERROR "${file} names CUDA or NCCL, which only cuda/ and cuda/interop.hpp may: ${line}")
    endif()
  endforeach()
endforeach()

# What CMAKE_CUDA_ARCHITECTURES becomes on machines with other GPUs, which a program in place of nvidia-smi lists.
#   cmake -DFOLDER=FOLDER -P gpu_architectures.cmake
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/gpu_architectures.cmake")
set(path "$ENV{PATH}")

function(check_architectures script expected)
  file(WRITE "${FOLDER}/nvidia-smi" "#!/bin/sh\n${script}\n")
  file(CHMOD "${FOLDER}/nvidia-smi" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(ENV{PATH} "${FOLDER}:${path}")
  lockstep_find_gpu_architectures(architectures)
  if(NOT architectures STREQUAL expected)
    message(SEND_ERROR "'${script}' gives '${architectures}', not '${expected}'")
  endif()
endfunction()

check_architectures("printf '9.0\\\\n9.0\\\\n8.6\\\\n'" "90-real;86-real")
check_architectures("echo 12.0" "120-real")
check_architectures("printf '7.5\\\\n8.0\\\\n'" "80-real")
check_architectures("echo 7.0" "80-virtual")
check_architectures("echo [N/A]" "80-virtual")
check_architectures("echo 'NVIDIA-SMI has failed: version 9.0'; exit 9" "80-virtual")
check_architectures("exit 0" "80-virtual")

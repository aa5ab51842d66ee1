# Tests of the CUDA backend on virtual GPUs. CTest builds vgpu, from LOCKSTEP_VGPU_SOURCE, before the first of them.
set(vgpu_build "${PROJECT_BINARY_DIR}/vgpu")

add_test(NAME "vgpu: build"
         COMMAND sh -c "cmake -S '${LOCKSTEP_VGPU_SOURCE}' -B '${vgpu_build}' -G Ninja -DCMAKE_BUILD_TYPE=Release -DVGPU_TESTS=OFF -DVGPU_CUDA_ROOT='${CUDAToolkit_TARGET_DIR}' && cmake --build '${vgpu_build}'")
set_tests_properties("vgpu: build" PROPERTIES LABELS vgpu TIMEOUT 1200 PROCESSORS 2 FIXTURES_SETUP vgpu)

# lockstep_add_vgpu_test(name COMMAND target argument... [DEVICES n] [SEED n] [VIRTUAL_DEVICES n] [OPTIONS option...])
#
# A CTest entry, "vgpu: name", that runs a program on n virtual GPUs (4 unless told), or on one that is split into
# VIRTUAL_DEVICES. Races and leaks fail it.
function(lockstep_add_vgpu_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DEVICES;SEED;VIRTUAL_DEVICES" "COMMAND;OPTIONS;ENVIRONMENT")
  if(NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_add_vgpu_test(${name}): needs COMMAND, does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT DEFINED arg_DEVICES)
    set(arg_DEVICES 4)
  endif()
  if(NOT arg_SEED)
    set(arg_SEED 1)
  endif()
  if(NOT DEFINED arg_OPTIONS)
    set(arg_OPTIONS --racecheck --leakcheck)
  endif()
  list(POP_FRONT arg_COMMAND target)
  add_test(NAME "vgpu: ${name}"
           COMMAND "${vgpu_build}/vgpu-run" -n ${arg_DEVICES} --seed ${arg_SEED} --deadlock-ms 20000 ${arg_OPTIONS} --
                   $<TARGET_FILE:${target}> ${arg_COMMAND})
  set_tests_properties("vgpu: ${name}" PROPERTIES LABELS vgpu TIMEOUT 1800 FIXTURES_REQUIRED vgpu)
  if(arg_VIRTUAL_DEVICES)
    list(APPEND arg_ENVIRONMENT LOCKSTEP_TEST_VIRTUAL_DEVICES=${arg_VIRTUAL_DEVICES})
  endif()
  set_tests_properties("vgpu: ${name}" PROPERTIES ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

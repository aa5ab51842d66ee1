# The virtual GPUs of tests/vgpu: AUTO builds them if the CUDA backend and the tests are built, ON requires them. Sets
# LOCKSTEP_HAS_VGPU, and LOCKSTEP_TEST_GPUS if the tests of the CUDA backend run on the machine's own GPUs.
set(LOCKSTEP_HAS_VGPU 0)
if(LOCKSTEP_HAS_CUDA AND LOCKSTEP_CUDA_RUNTIME STREQUAL "Shared" AND
   (LOCKSTEP_VGPU STREQUAL "ON" OR (LOCKSTEP_VGPU STREQUAL "AUTO" AND LOCKSTEP_BUILD_TESTS)))
  set(LOCKSTEP_HAS_VGPU 1)
endif()
if(LOCKSTEP_VGPU STREQUAL "ON" AND NOT LOCKSTEP_HAS_VGPU)
  message(FATAL_ERROR "LOCKSTEP_VGPU=ON, but virtual GPUs need the CUDA toolkit and its shared runtime, and the CUDA backend "
                      "is ${cuda_summary}, with LOCKSTEP_CUDA_RUNTIME=${LOCKSTEP_CUDA_RUNTIME}.")
endif()

set(LOCKSTEP_TEST_GPUS 0)
if(NOT LOCKSTEP_HAS_VGPU OR EXISTS /dev/nvidiactl)
  set(LOCKSTEP_TEST_GPUS 1)
endif()

# lockstep_add_vgpu_test(name COMMAND target argument... [DEVICES n] [SEED n] [VIRTUAL_DEVICES n] [OPTIONS option...]
#                        [WORKERS n] [ENVIRONMENT variable=value...])
#
# Adds a CTest entry, "vgpu: name", that runs a program on n virtual GPUs (default 4), or on one that is split into
# VIRTUAL_DEVICES. OPTIONS are those of vgpu-run; by default races and leaks fail the test. With WORKERS
# tests/support/run_workers.sh starts as many processes, each of which sees all GPUs and has an equal part of them.
function(lockstep_add_vgpu_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DEVICES;SEED;VIRTUAL_DEVICES;WORKERS" "COMMAND;OPTIONS;ENVIRONMENT")
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
  set(start)
  if(arg_WORKERS)
    math(EXPR replicas "${arg_DEVICES} / ${arg_WORKERS}")
    set(start "${PROJECT_SOURCE_DIR}/tests/support/run_workers.sh" -n ${arg_WORKERS} -r ${replicas} --time-limit 240)
  endif()
  add_test(NAME "vgpu: ${name}"
           COMMAND ${start} $<TARGET_FILE:lockstep::vgpu_run> -n ${arg_DEVICES} --seed ${arg_SEED} --deadlock-ms 20000 ${arg_OPTIONS} --
                   $<TARGET_FILE:${target}> ${arg_COMMAND})
  if(arg_VIRTUAL_DEVICES)
    list(APPEND arg_ENVIRONMENT LOCKSTEP_TEST_VIRTUAL_DEVICES=${arg_VIRTUAL_DEVICES})
  endif()
  set_tests_properties("vgpu: ${name}" PROPERTIES LABELS vgpu TIMEOUT 1800 ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

find_package(Catch2 3.3 REQUIRED)
include(Catch)

# Compiles a backend for tests/support/test_backend.hpp; each test program links one of them.
function(lockstep_add_test_backend backend)
  add_library(lockstep_test_backend_${backend} OBJECT "${PROJECT_SOURCE_DIR}/tests/support/test_backend_${backend}.cpp")
  lockstep_use_for_tests(lockstep_test_backend_${backend})
endfunction()

# lockstep_use_for_tests(target library...)
#
# Sets how tests are compiled: they may include private headers, such as "host/host_device.hpp".
function(lockstep_use_for_tests target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE lockstep::internal ${ARGN} lockstep_build Catch2::Catch2)
  # What tests spend time in is the library, so that only their own compile time counts.
  if(NOT LOCKSTEP_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Debug>,$<CXX_COMPILER_ID:GNU,Clang>>:-g1;-O0>)
  endif()
endfunction()

# lockstep_add_test(name SOURCES file... [LABELS label] [TIMEOUT seconds] [BACKEND backend] [LIBRARIES target...])
#
# Adds one Catch2 executable, lockstep_<name>. Each of its test cases becomes a CTest entry "name: test case" with the
# label (default host) and the timeout (default 300 seconds). BACKEND is the one that tests/support/test_backend.hpp
# presents (default host). NO_ENTRIES: no CTest entries, because lockstep_add_vgpu_test makes them.
function(lockstep_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_ENTRIES" "LABELS;TIMEOUT;BACKEND" "SOURCES;LIBRARIES")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_add_test(${name}): needs SOURCES, does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS host)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_BACKEND)
    set(arg_BACKEND host)
  endif()

  set(target lockstep_${name})
  add_executable(${target} ${arg_SOURCES} $<TARGET_OBJECTS:lockstep_test_backend_${arg_BACKEND}>)
  lockstep_use_for_tests(${target} ${arg_LIBRARIES} Catch2::Catch2WithMain)

  if(arg_NO_ENTRIES)
    return()
  endif()
  catch_discover_tests(${target}
    DISCOVERY_MODE PRE_TEST
    TEST_PREFIX "${name}: "
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# lockstep_add_contract_tests(backend)
#
# Adds lockstep_contract_<backend>, which runs the contract of all backends, tests/contract/, on one backend. The
# contract is compiled once for all backends.
function(lockstep_add_contract_tests backend)
  lockstep_add_test(contract_${backend} SOURCES $<TARGET_OBJECTS:lockstep_contract> BACKEND ${backend} LABELS ${backend} ${ARGN})
endfunction()

# lockstep_add_workers_contract_tests(backend)
#
# What a strategy of one or several processes must do, tests/contract/workers/: lockstep_contract_workers_<backend>, whose
# entries say how many replicas there are.
function(lockstep_add_workers_contract_tests backend)
  lockstep_add_test(contract_workers_${backend} SOURCES $<TARGET_OBJECTS:lockstep_workers_contract> BACKEND ${backend} NO_ENTRIES
    LIBRARIES lockstep_internal_engines)
endfunction()

# lockstep_add_golden_tests(backend)
#
# Adds lockstep_goldens_<backend>, which compares the backend's results with TensorFlow's, tests/goldens/.
function(lockstep_add_golden_tests backend)
  lockstep_add_test(goldens_${backend} SOURCES $<TARGET_OBJECTS:lockstep_goldens> BACKEND ${backend} LABELS ${backend} ${ARGN})
endfunction()

# LibTorch, for the tests and the example of lockstep/integrations: AUTO uses it where it is found, ON insists. The library
# does not need it. Sets libtorch_summary, and makes the target libtorch.
set(libtorch_summary "off")

# A function, because Torch's package sets many variables.
function(lockstep_find_libtorch)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  find_package(Torch 1.13 QUIET CONFIG)
  if(TORCH_FOUND)
    add_library(libtorch INTERFACE)
    target_link_libraries(libtorch INTERFACE ${TORCH_LIBRARIES})
    target_include_directories(libtorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
    set(libtorch_summary "on, ${Torch_VERSION}" PARENT_SCOPE)
  endif()
endfunction()

# Sanitizers take what they cannot see in it for faults, and clang 14 does not compile LibTorch 1.13's headers as C++20.
if(LOCKSTEP_LIBTORCH STREQUAL "ON" OR (LOCKSTEP_LIBTORCH STREQUAL "AUTO" AND NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_FUZZ
                                       AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"))
  set(libtorch_summary "off, no LibTorch 1.13 or later was found (Debian: libtorch-dev)")
  lockstep_find_libtorch()
endif()

if(NOT LOCKSTEP_LIBTORCH MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "LOCKSTEP_LIBTORCH is '${LOCKSTEP_LIBTORCH}'. Use AUTO, ON or OFF.")
endif()
if(LOCKSTEP_LIBTORCH STREQUAL "ON" AND NOT TARGET libtorch)
  message(FATAL_ERROR "LOCKSTEP_LIBTORCH=ON, but LibTorch is ${libtorch_summary}. Install it, name its prefix with "
                      "CMAKE_PREFIX_PATH, or use AUTO or OFF.")
endif()

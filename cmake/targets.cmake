# SPDX-License-Identifier: Apache-2.0
# For which instruction sets vector code is compiled. All: what is packed, what
# tests run on, what other machines may get. One: what is built to be used here,
# in a third of the time that vector code takes (docs/notes/0042). src/cpu/targets.h
# includes what stands here, so that another choice compiles vector code alone.
set(FLASHACL_TARGETS all CACHE STRING
    "Vector code for: all instruction sets, native (the best of this machine), \
or one of SSE4, AVX2, AVX3")
set_property(CACHE FLASHACL_TARGETS PROPERTY STRINGS all native SSE4 AVX2 AVX3)

# What Linux calls the instructions that Highway's targets have, each those of
# the ones before it, too.
set(FLASHACL_NEEDS_SSE4 ssse3 sse4_1 sse4_2 pclmulqdq aes)
set(FLASHACL_NEEDS_AVX2 avx avx2 abm bmi1 bmi2 fma f16c)
set(FLASHACL_NEEDS_AVX3 avx512f avx512bw avx512cd avx512dq avx512vl)

# flashacl_best_target(VARIABLE CPUINFO): the name of the best target that the
# processor of this text of /proc/cpuinfo has; empty if it has none, as where it
# is no x86.
function(flashacl_best_target variable cpuinfo)
  set(best "")
  if(cpuinfo MATCHES "(^|\n)flags[ \t]*:([^\n]*)")
    separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_2}")
    foreach(target SSE4 AVX2 AVX3)
      set(missing ${FLASHACL_NEEDS_${target}})
      list(REMOVE_ITEM missing ${flags})
      if(missing)
        break()
      endif()
      set(best ${target})
    endforeach()
  endif()
  set(${variable} "${best}" PARENT_SCOPE)
endfunction()

# flashacl_one_target(VARIABLE TARGETS CPUINFO): the one target that vector code
# is compiled for, or empty for all, which is also what a machine gets whose best
# one is unknown.
function(flashacl_one_target variable targets cpuinfo)
  set(one "")
  if(targets STREQUAL "native")
    flashacl_best_target(one "${cpuinfo}")
  elseif(targets MATCHES "^(SSE4|AVX2|AVX3)$")
    set(one ${targets})
  elseif(NOT targets STREQUAL "all")
    message(FATAL_ERROR "FLASHACL_TARGETS is ${targets}; expected all, native, "
                        "SSE4, AVX2 or AVX3")
  endif()
  set(${variable} "${one}" PARENT_SCOPE)
endfunction()

# flashacl_write_target(ONE): the header that src/cpu/targets.h includes; as it
# was, and so is what includes it, where the choice is that of last time.
function(flashacl_write_target one)
  set(text "// Vector code is for all instruction sets: cmake/targets.cmake.\n")
  if(one)
    set(text "// Vector code is for this alone: cmake/targets.cmake.\n\
#define FLASHACL_ONE_TARGET HWY_${one}\n")
  endif()
  file(CONFIGURE OUTPUT
       "${PROJECT_BINARY_DIR}/generated/targets/flashacl_targets.h"
       CONTENT "${text}" @ONLY)
endfunction()

# Not where this only defines functions, for a test of them.
if(PROJECT_BINARY_DIR)
  # No other architecture has a choice, and another machine's is not known.
  set(cpuinfo "")
  if(EXISTS /proc/cpuinfo AND NOT CMAKE_CROSSCOMPILING)
    file(READ /proc/cpuinfo cpuinfo)
  endif()
  flashacl_one_target(one_target "${FLASHACL_TARGETS}" "${cpuinfo}")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(one_target "")
  endif()
  flashacl_write_target("${one_target}")
endif()

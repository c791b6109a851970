# SPDX-License-Identifier: Apache-2.0
# Vector code for SVE. Its vectors have no size, so nothing could hold them, but
# where an option gives the compiler their width. As an option is for a whole
# file, each source of vector code is compiled once more for each width
# (src/cpu/tile/sve-inl.h). Vectors of 128 bits do no more at a time than NEON's:
# that width is for tests (docs/notes/0056).
set(FLASHACL_SVE auto CACHE STRING
    "Widths of SVE's vectors, in bits, that vector code is for on 64-bit ARM \
besides NEON: a list of 128, 256 and 512; none; or auto, which is 256 and 512, for \
native targets what this machine has")

# Where vector code gains by longer vectors, and its tests.
set(FLASHACL_SVE_FOLDERS "(src/(cpu|indexer|merge|roof)|tests/cpu)")

# flashacl_wanted_sve(VARIABLE SVE TARGETS BITS): the widths by what is asked, as
# FLASHACL_SVE and FLASHACL_TARGETS, and the width of this machine's vectors.
function(flashacl_wanted_sve variable sve targets bits)
  set(widths "")
  if(sve STREQUAL "auto")
    set(widths 256 512)
    if(targets STREQUAL "native")
      list(FILTER widths INCLUDE REGEX "^${bits}$")
    endif()
  elseif(NOT sve STREQUAL "none")
    set(widths ${sve})
    foreach(width IN LISTS widths)
      if(NOT width MATCHES "^(128|256|512)$")
        message(FATAL_ERROR "FLASHACL_SVE has ${width}; expected auto, none, or a "
                            "list of 128, 256 and 512")
      endif()
    endforeach()
  endif()
  set(${variable} "${widths}" PARENT_SCOPE)
endfunction()

# flashacl_compiles_sve(VARIABLE): whether the compiler has types of a width in
# code for SVE within a file that is not.
function(flashacl_compiles_sve variable)
  set(CMAKE_REQUIRED_FLAGS "-msve-vector-bits=256")
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("
    #include <arm_sve.h>
    #pragma GCC push_options
    #pragma GCC target(\"+sve\")
    typedef svfloat32_t Vector __attribute__((arm_sve_vector_bits(256)));
    struct Block { Vector of[4]; };
    template <class V> struct LanesOf;
    template <> struct LanesOf<Vector> { static const int value = 8; };
    Vector Sum(const Block& x) {
      return svadd_f32_x(svptrue_b32(), x.of[0], x.of[LanesOf<Vector>::value / 4]);
    }
    #pragma GCC pop_options
    int main() {}" FLASHACL_COMPILES_SVE)
  set(${variable} "${FLASHACL_COMPILES_SVE}" PARENT_SCOPE)
endfunction()

# flashacl_sve_widths(VARIABLE): the widths that vector code is compiled for.
function(flashacl_sve_widths variable)
  set(${variable} "" PARENT_SCOPE)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    return()
  endif()
  # Another machine's width is not known.
  set(targets "${FLASHACL_TARGETS}")
  set(bytes 0)
  set(length "/proc/sys/abi/sve_default_vector_length")
  if(CMAKE_CROSSCOMPILING)
    set(targets all)
  elseif(EXISTS "${length}")
    file(READ "${length}" bytes)
  endif()
  math(EXPR bits "8 * ${bytes}")
  flashacl_wanted_sve(widths "${FLASHACL_SVE}" "${targets}" ${bits})
  if(widths STREQUAL "")
    return()
  endif()
  flashacl_compiles_sve(compiles)
  if(compiles)
    set(${variable} "${widths}" PARENT_SCOPE)
  else()
    message(STATUS "Vector code is for NEON alone: this compiler gives SVE's "
                   "vectors no size (GCC 10 and newer do)")
  endif()
endfunction()

# flashacl_add_sve(LIST): adds to LIST what compiles its vector code for SVE.
function(flashacl_add_sve variable)
  set(all ${${variable}})
  foreach(source IN LISTS ${variable})
    get_filename_component(source "${source}" ABSOLUTE)
    if(NOT source MATCHES "^${PROJECT_SOURCE_DIR}/${FLASHACL_SVE_FOLDERS}/")
      continue()
    endif()
    file(STRINGS "${source}" is_vector_code REGEX "define HWY_TARGET_INCLUDE")
    if(NOT is_vector_code)
      continue()
    endif()
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${source}")
    string(REGEX REPLACE "^src/" "" path "${path}")
    foreach(width IN LISTS FLASHACL_SVE_WIDTHS)
      set(file "${PROJECT_BINARY_DIR}/generated/sve/${width}/${path}")
      file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT
           "// For SVE of ${width} bits: cmake/sve.cmake.\n#include \"${path}\"\n")
      flashacl_optimise("${file}")
      flashacl_vector_code("${file}")
      set_property(SOURCE "${file}" APPEND PROPERTY
                   COMPILE_OPTIONS "-msve-vector-bits=${width}")
      # Precompiled headers are compiled without that option.
      set_source_files_properties("${file}" PROPERTIES
        COMPILE_DEFINITIONS "FLASHACL_SVE_BITS=${width}"
        SKIP_PRECOMPILE_HEADERS ON)
      list(APPEND all "${file}")
    endforeach()
  endforeach()
  set(${variable} ${all} PARENT_SCOPE)
endfunction()

# Not where this only defines functions, for a test of them.
if(PROJECT_BINARY_DIR)
  include(CheckCXXSourceCompiles)
  flashacl_sve_widths(FLASHACL_SVE_WIDTHS)
  set(highway_128 HWY_SVE2_128)
  set(highway_256 HWY_SVE_256)
  set(highway_512 HWY_SVE)
  set(sve_targets 0)
  foreach(width IN LISTS FLASHACL_SVE_WIDTHS)
    string(APPEND sve_targets " | ${highway_${width}}")
  endforeach()
  file(CONFIGURE @ONLY
       OUTPUT "${PROJECT_BINARY_DIR}/generated/targets/flashacl_sve.h"
       CONTENT "// Widths of SVE that vector code is for: cmake/sve.cmake.\n\
#define FLASHACL_SVE_TARGETS (${sve_targets})\n")
endif()

# SPDX-License-Identifier: Apache-2.0
# What a preset may choose, and the compiler flags that follow from it. They
# sit on one interface target, flashacl_options.
# Other compilers than ours have other opinions; whoever only uses FlashACL need
# not share ours. scripts/build.sh turns it on in CI, presets for work do, too.
option(FLASHACL_WERROR "Treat warnings as errors" OFF)
option(FLASHACL_DCHECKS "Trap when one of our own assumptions is false" OFF)
option(FLASHACL_BENCH "Build the benchmarks" OFF)
option(FLASHACL_COVERAGE "Count which lines run (gcov)" OFF)
option(FLASHACL_PORTABLE
       "Link all but glibc into library and tool, so that both run anywhere" OFF)
option(FLASHACL_FUZZ "Build only the fuzz targets, with libFuzzer (clang)" OFF)
option(FLASHACL_DEFAULT_PATHS
       "Also link the default CANN paths in /usr/local/Ascend to the prefix" OFF)
set(FLASHACL_SANITIZE "" CACHE STRING
    "address, undefined, thread or address,undefined; empty for none")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Debug builds stay usable for fp64 arithmetic on whole problems. A sanitizer's
# report names functions and lines; variables, which it does not name, take a
# third of the time to compile. There only what computes is optimised: the rest
# takes twice as long to compile as it then saves (flashacl_optimise).
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
if(FLASHACL_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Whether headers are compiled beforehand. A compiler cache does not take such
# headers and helps more, and GCC 12 warns of more where std::string comes out of
# one, so only builds for sanitizers, where warnings stay warnings, have them.
set(FLASHACL_PRECOMPILES OFF)
if(FLASHACL_SANITIZE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(FLASHACL_PRECOMPILES ON)
endif()

# flashacl_optimise(FILE...): compiles files that compute, in a build for
# sanitizers, too, so that they run fast; in them alone pointers are looked at for
# alignment, which elsewhere is a fifth of the time to compile. Not with the
# others' headers, whose flags are other ones.
function(flashacl_optimise)
  if(FLASHACL_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS "-O1")
    set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endif()
  if(FLASHACL_SANITIZE MATCHES "undefined")
    set_property(SOURCE ${ARGN} APPEND PROPERTY
                 COMPILE_OPTIONS "-fsanitize=alignment")
  endif()
endfunction()

# Sources that are compiled for every instruction set.
set(FLASHACL_VECTOR_CODE
    "/(gemv_[a-z0-9]+|[a-z]+(_[a-z]+)*_kernel|roof)\\.cc$")

# flashacl_vector_code(FILE...): leaves out of vector code the checks that cost
# more to compile than it does: uses of a local after its scope (half of the time
# with GCC), and, with clang, undefined behaviour (nine tenths), which sanitizer
# builds with GCC, the presets' compiler, look for. GCC before 14 places frames
# that it keeps after a return at 32 bytes, where vectors of 64 are a
# segmentation fault (GCC bug 110027): the stack of vector code is the usual one.
function(flashacl_vector_code)
  set(files ${ARGN})
  list(FILTER files INCLUDE REGEX "${FLASHACL_VECTOR_CODE}")
  if(FLASHACL_SANITIZE MATCHES "address")
    set_property(SOURCE ${files} APPEND PROPERTY
      COMPILE_OPTIONS "-fno-sanitize-address-use-after-scope")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
       AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
      set_property(SOURCE ${files} APPEND PROPERTY
        COMPILE_OPTIONS "--param=asan-use-after-return=0")
    endif()
  endif()
  if(FLASHACL_SANITIZE MATCHES "undefined"
     AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set_property(SOURCE ${files} APPEND PROPERTY
      COMPILE_OPTIONS "-fno-sanitize=undefined")
  endif()
endfunction()

add_library(flashacl_options INTERFACE)
target_compile_options(flashacl_options INTERFACE -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of overlapping copies inside std::string operator+ where there
  # are none (GCC bug 105651).
  target_compile_options(flashacl_options INTERFACE -Wno-restrict)
  # GCC 13 takes references to what is never destroyed for dangling ones.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(flashacl_options INTERFACE -Wno-dangling-reference)
  endif()
  # Under a sanitizer it takes std::regex for uninitialized, a page per use.
  if(FLASHACL_SANITIZE)
    target_compile_options(flashacl_options INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
# GCC looks for what it may forget when it has 128 MiB, and again and again: a
# tenth of the time of sources that are compiled together, for 140 MB each.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND FLASHACL_JOINED)
  target_compile_options(flashacl_options INTERFACE
                         "--param=ggc-min-heapsize=524288")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang"
   AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 19)
  # It warns of what libstdc++ 12 calls inside std::stable_sort and its like.
  target_compile_options(flashacl_options INTERFACE -Wno-deprecated-declarations)
endif()
# A sanitizer's own code confuses GCC's flow analysis inside the standard
# library, so there warnings stay warnings.
if(FLASHACL_WERROR AND NOT FLASHACL_SANITIZE)
  target_compile_options(flashacl_options INTERFACE -Werror)
endif()
if(FLASHACL_DCHECKS)
  target_compile_definitions(flashacl_options INTERFACE FLASHACL_DCHECKS=1)
  # A sanitizer's presets have one width, this machine's.
  if(NOT FLASHACL_SANITIZE)
    target_compile_definitions(flashacl_options INTERFACE FLASHACL_TWO_WIDTHS=1)
  endif()
endif()
if(FLASHACL_SANITIZE)
  set(sanitize "-fsanitize=${FLASHACL_SANITIZE}" -fno-omit-frame-pointer)
  # A use of a null pointer ends a program anyway, and what an object is not the
  # address sanitizer says.
  if(FLASHACL_SANITIZE MATCHES "undefined")
    list(APPEND sanitize -fno-sanitize-recover=undefined
         -fno-sanitize=null,vptr,alignment)
  endif()
  target_compile_options(flashacl_options INTERFACE ${sanitize})
  target_link_options(flashacl_options INTERFACE ${sanitize})
endif()
if(FLASHACL_COVERAGE)
  target_compile_options(flashacl_options INTERFACE --coverage)
  target_link_options(flashacl_options INTERFACE --coverage)
endif()

# GCC 12's thread sanitizer cannot map its shadow where the kernel randomises
# more than 28 bits of an address; there, run without randomisation.
set(random_bits /proc/sys/vm/mmap_rnd_bits)
if(FLASHACL_SANITIZE STREQUAL "thread" AND EXISTS ${random_bits})
  file(STRINGS ${random_bits} bits LIMIT_COUNT 1)
  if(bits GREATER 28)
    set(CMAKE_CROSSCOMPILING_EMULATOR setarch --addr-no-randomize)
  endif()
endif()

# SPDX-License-Identifier: Apache-2.0
# Fuzz targets, tests/fuzz/x_fuzz.cc. In preset `fuzz` libFuzzer drives them,
# from the inputs in tests/fuzz/corpus/x on; elsewhere fuzz_main.cc runs these,
# as a fast test, and a fixed number of random inputs, so that every build runs
# them.
set(FLASHACL_FUZZ_SECONDS 60 CACHE STRING
    "How long ctest runs each target in preset fuzz")
set(FLASHACL_FUZZ_RUNS 2000 CACHE STRING
    "How many random inputs ctest gives each target in other presets")

# What targets share, in an archive, so that each takes only what it uses.
file(GLOB fuzz_helpers CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/*.cc")
list(FILTER fuzz_helpers EXCLUDE REGEX "_fuzz\\.cc$")
add_library(flashacl_fuzzing STATIC ${fuzz_helpers})
target_link_libraries(flashacl_fuzzing PUBLIC flashacl_testing flashacl_verify)

file(GLOB fuzz_sources CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/*_fuzz.cc")
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name "${name}")
  set(target fuzz_${name})
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name}")
  if(NOT IS_DIRECTORY "${corpus}")
    set(corpus "")  # it starts from nothing
  endif()
  add_executable(${target} "${source}")
  target_link_libraries(${target} PRIVATE flashacl_fuzzing)
  flashacl_link_test(${target})
  if(FLASHACL_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    # New inputs go to the build tree; the corpus in the sources only seeds.
    # Counting how rare what an input reaches is took most of the time.
    set(found "${PROJECT_BINARY_DIR}/corpus/${name}")
    file(MAKE_DIRECTORY "${found}")
    add_test(NAME fuzz.${name}
             COMMAND ${target} -max_total_time=${FLASHACL_FUZZ_SECONDS}
                     -timeout=20 -entropic=0 -max_len=256
                     -print_final_stats=1
                     -artifact_prefix=${PROJECT_BINARY_DIR}/${name}-
                     "${found}" ${corpus})
    math(EXPR limit "${FLASHACL_FUZZ_SECONDS} + 300")
  else()
    target_sources(${target} PRIVATE testing/fuzz_main.cc)
    add_test(NAME fuzz.${name}
             COMMAND ${target} --runs ${FLASHACL_FUZZ_RUNS} ${corpus})
    set(limit 900)
    if(corpus)
      add_test(NAME corpus.${name} COMMAND ${target} --runs 0 "${corpus}")
      set_tests_properties(corpus.${name} PROPERTIES
        LABELS fast TIMEOUT 300 ENVIRONMENT "${test_environment}")
    endif()
  endif()
  set_tests_properties(fuzz.${name} PROPERTIES
    LABELS "slow;fuzz" TIMEOUT ${limit} ENVIRONMENT "${test_environment}")
endforeach()

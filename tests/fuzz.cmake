# SPDX-License-Identifier: Apache-2.0
# Fuzz targets, tests/fuzz/x_fuzz.cc. In preset `fuzz` libFuzzer drives them;
# elsewhere fuzz_main.cc runs the corpus and a fixed number of random inputs,
# so that every build runs them as tests.
set(FLASHACL_FUZZ_SECONDS 60 CACHE STRING
    "How long ctest runs each target in preset fuzz")
set(FLASHACL_FUZZ_RUNS 2000 CACHE STRING
    "How many random inputs ctest gives each target in other presets")

file(GLOB fuzz_sources CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/*_fuzz.cc")
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name "${name}")
  set(target fuzz_${name})
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name}")
  add_executable(${target} "${source}")
  flashacl_link_test(${target})
  if(FLASHACL_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    # New inputs go to the build tree; the corpus in the sources only seeds.
    set(found "${PROJECT_BINARY_DIR}/corpus/${name}")
    file(MAKE_DIRECTORY "${found}")
    if(NOT EXISTS "${corpus}")
      set(corpus "")
    endif()
    add_test(NAME fuzz.${name}
             COMMAND ${target} -max_total_time=${FLASHACL_FUZZ_SECONDS}
                     -timeout=20 -print_final_stats=1
                     -artifact_prefix=${PROJECT_BINARY_DIR}/${name}-
                     "${found}" ${corpus})
    math(EXPR limit "${FLASHACL_FUZZ_SECONDS} + 300")
  else()
    target_sources(${target} PRIVATE testing/fuzz_main.cc)
    add_test(NAME fuzz.${name}
             COMMAND ${target} --runs ${FLASHACL_FUZZ_RUNS} "${corpus}")
    set(limit 900)
  endif()
  set_tests_properties(fuzz.${name} PROPERTIES
    LABELS "slow;fuzz" TIMEOUT ${limit} ENVIRONMENT "${test_environment}")
endforeach()

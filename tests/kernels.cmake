# SPDX-License-Identifier: Apache-2.0
# test_kernels: what holds for the CPU kernels on every instruction set, with the
# sources that these tests need and nothing else, for processors on which all of
# test_cpu takes too long to build (scripts/arm_kernels.sh). Not part of a build
# of everything: its tests are those of test_cpu.
set(kernel_sources "")
foreach(folder base cpu plan problem reference)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/src/${folder}/*.cc")
  list(APPEND kernel_sources ${files})
endforeach()
file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/verify/*.cc")
list(APPEND kernel_sources ${files} "${PROJECT_SOURCE_DIR}/src/backends.cc"
     testing/generator.cc testing/small_case.cc
     cpu/accuracy_test.cc cpu/byte_dots_test.cc
     cpu/decode/decode_bytes_test.cc cpu/decode/decode_halves_test.cc
     cpu/fenced_test.cc cpu/half_dots_test.cc cpu/pair_dots_test.cc
     cpu/special_test.cc cpu/tile/mask_test.cc cpu/tile/pairs_test.cc)
flashacl_add_sve(kernel_sources)
flashacl_join(kernel_sources kernels/base "src/base/[^/]*" 14)
flashacl_join(kernel_sources kernels/plan "src/plan/[^/]*" 14)
flashacl_join(kernel_sources kernels/problem "src/problem/[^/]*" 14)
add_executable(test_kernels EXCLUDE_FROM_ALL ${kernel_sources})
target_link_libraries(test_kernels PRIVATE flashacl_usage GTest::gtest_main)
target_include_directories(test_kernels PRIVATE "${PROJECT_SOURCE_DIR}")

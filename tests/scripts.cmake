# SPDX-License-Identifier: Apache-2.0
# The rules of the house as tests, and the tests of the rules.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Runs one script of ours from the top of the sources.
function(flashacl_script_test name)
  add_test(NAME scripts.${name} COMMAND Python3::Interpreter ${ARGN}
           WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(scripts.${name} PROPERTIES
    LABELS "fast;scripts" TIMEOUT 120 ENVIRONMENT "${test_environment}")
endfunction()

foreach(rule layering mirror forbidden format)
  flashacl_script_test(${rule} scripts/${rule}.py)
endforeach()
# Where clang-format is of another version.
set_tests_properties(scripts.format PROPERTIES SKIP_RETURN_CODE 77)
foreach(rule symbols names)
  flashacl_script_test(${rule} scripts/${rule}.py $<TARGET_FILE:ascendcl>)
endforeach()

# Nothing to look at in a fresh checkout: what changed is compiled alone.
if(FLASHACL_JOINED)
  flashacl_script_test(alone scripts/alone.py --build "${PROJECT_BINARY_DIR}")
  set_tests_properties(scripts.alone PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

file(GLOB script_tests CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/scripts/*_test.py")
foreach(path IN LISTS script_tests)
  get_filename_component(name "${path}" NAME_WE)
  flashacl_script_test(${name} "${path}")
endforeach()

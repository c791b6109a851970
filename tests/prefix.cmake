# SPDX-License-Identifier: Apache-2.0
# Tests of the installed prefix: each executable tests/**/*.sh. They run after
# one installation into the build tree and get its headers' folder as argument;
# the environment names the rest. A line `# labels: a;b` in a script replaces
# its label `prefix`; `sanitized` asks for a run in sanitizer builds too.
add_test(NAME prefix.install
         COMMAND ${CMAKE_COMMAND}
                 "-DBUILD=${PROJECT_BINARY_DIR}"
                 "-DPREFIX=${PROJECT_BINARY_DIR}/prefix"
                 -P "${PROJECT_SOURCE_DIR}/cmake/install_afresh.cmake")
set_tests_properties(prefix.install PROPERTIES
  FIXTURES_SETUP prefix LABELS "prefix;sanitized")

file(GLOB_RECURSE test_scripts CONFIGURE_DEPENDS
     RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "*.sh")
foreach(script IN LISTS test_scripts)
  set(path "${CMAKE_CURRENT_SOURCE_DIR}/${script}")
  execute_process(COMMAND test -x "${path}" RESULT_VARIABLE not_executable)
  if(not_executable)
    continue()  # sourced by others
  endif()
  if(script MATCHES "^tools/" AND NOT TARGET flashacl)
    continue()
  endif()
  string(REGEX REPLACE "\\.sh$" "" name "${script}")
  string(REPLACE "/" "." name "${name}")
  file(STRINGS "${path}" labels REGEX "^# labels: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^# labels: " "" labels "${labels}")
  # file(STRINGS) protects semicolons; here they separate.
  string(REPLACE "\\;" ";" labels "${labels}")
  if(NOT labels)
    set(labels prefix)
  endif()
  add_test(NAME ${name}
           COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} "${path}"
                   "${PROJECT_BINARY_DIR}/prefix/include")
  set_tests_properties(${name} PROPERTIES
    FIXTURES_REQUIRED prefix LABELS "${labels}" TIMEOUT 900
    ENVIRONMENT "${test_environment}")
endforeach()

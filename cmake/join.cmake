# SPDX-License-Identifier: Apache-2.0
# Sources that are compiled together. Two thirds of the time to compile a small
# source go into headers that its neighbours include, too; a build that is used,
# not worked on, has them in one (docs/notes/0042). Everyday builds compile each
# alone, so that little is compiled again.
option(FLASHACL_JOINED "Compile small sources of a folder together" OFF)
if(FLASHACL_JOINED AND FLASHACL_SANITIZE)
  message(FATAL_ERROR "FLASHACL_JOINED: sources of a sanitizer build have options "
                      "of their own (flashacl_optimise); set one of both.")
endif()

# The tool parses and prints: -O1 takes two thirds of the time to compile. Not the
# library, whose calls plan and submit: they were slower (docs/notes/0042).
set(FLASHACL_LIGHT "")
if(FLASHACL_JOINED AND CMAKE_BUILD_TYPE STREQUAL "Release")
  set(FLASHACL_LIGHT "-O1")
endif()

# flashacl_join(LIST NAME REGEX FILES [OPTION...]): replaces in LIST the sources
# whose paths in the checkout match, but for vector code, by files that include up
# to FILES of them, in order of their names, compiled with the options. Unnamed
# namespaces of such sources share their names.
function(flashacl_join variable name regex files)
  if(NOT FLASHACL_JOINED)
    return()
  endif()
  set(all ${${variable}})
  set(sources ${all})
  list(FILTER sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${regex}\\.cc$")
  list(FILTER sources EXCLUDE REGEX "${FLASHACL_VECTOR_CODE}")
  list(SORT sources)
  list(REMOVE_ITEM all ${sources})
  set(number 0)
  while(sources)
    list(SUBLIST sources 0 ${files} part)
    list(REMOVE_ITEM sources ${part})
    # From the folders of headers, so that a compiler cache serves all checkouts.
    set(text "// ${name}, compiled together: cmake/join.cmake.\n")
    foreach(source IN LISTS part)
      file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${source}")
      string(REGEX REPLACE "^src/" "" path "${path}")
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(file "${PROJECT_BINARY_DIR}/generated/joined/${name}/${number}.cc")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
    set_property(SOURCE "${file}" APPEND PROPERTY COMPILE_OPTIONS ${ARGN})
    list(APPEND all "${file}")
    math(EXPR number "${number} + 1")
  endwhile()
  set(${variable} ${all} PARENT_SCOPE)
endfunction()

# The same level for sources of the tool that stay alone.
function(flashacl_light)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${FLASHACL_LIGHT})
endfunction()

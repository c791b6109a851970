# SPDX-License-Identifier: Apache-2.0
# find_package(flashacl) gives flashacl::ascendcl (the runtime),
# flashacl::nnopbase (tensors and lists) and flashacl::opapi (the operators).
# They are names of one library. Everything is relative to this file, which is
# in lib/cmake/flashacl of the prefix; the library is in lib64.
get_filename_component(flashacl_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.."
                       ABSOLUTE)
set(flashacl_INCLUDE_DIRS "${flashacl_PREFIX}/include")
set(flashacl_LIBRARY_DIRS "${flashacl_PREFIX}/lib64")

foreach(_flashacl_name ascendcl nnopbase opapi)
  if(NOT TARGET flashacl::${_flashacl_name})
    add_library(flashacl::${_flashacl_name} SHARED IMPORTED)
    set_target_properties(flashacl::${_flashacl_name} PROPERTIES
      IMPORTED_LOCATION
        "${flashacl_LIBRARY_DIRS}/lib${_flashacl_name}.so"
      IMPORTED_SONAME libascendcl.so
      INTERFACE_INCLUDE_DIRECTORIES
        "${flashacl_INCLUDE_DIRS};${flashacl_INCLUDE_DIRS}/aclnn;${flashacl_INCLUDE_DIRS}/aclnnop")
  endif()
endforeach()
unset(_flashacl_name)
# flashacl::check judges results in tests, and is a library of its own.
if(NOT TARGET flashacl::check AND
   EXISTS "${flashacl_LIBRARY_DIRS}/libflashacl_check.so")
  add_library(flashacl::check SHARED IMPORTED)
  set_target_properties(flashacl::check PROPERTIES
    IMPORTED_LOCATION "${flashacl_LIBRARY_DIRS}/libflashacl_check.so"
    INTERFACE_INCLUDE_DIRECTORIES "${flashacl_INCLUDE_DIRS}")
endif()
# find_package(flashacl COMPONENTS opapi): components are the targets' names.
foreach(_flashacl_name IN LISTS flashacl_FIND_COMPONENTS)
  if(TARGET flashacl::${_flashacl_name})
    set(flashacl_${_flashacl_name}_FOUND TRUE)
  elseif(flashacl_FIND_REQUIRED_${_flashacl_name})
    set(flashacl_FOUND FALSE)
    set(flashacl_NOT_FOUND_MESSAGE
        "flashacl has no component ${_flashacl_name}: there are ascendcl, nnopbase and opapi")
  endif()
endforeach()
unset(_flashacl_name)
set(flashacl_LIBRARIES flashacl::opapi flashacl::nnopbase flashacl::ascendcl)

# SPDX-License-Identifier: Apache-2.0
# For projects that say find_package(AscendCL): the target AscendCL::AscendCL
# and the variables AscendCL_FOUND, AscendCL_INCLUDE_DIRS, AscendCL_LIBRARIES.
include("${CMAKE_CURRENT_LIST_DIR}/flashaclConfig.cmake")
set(AscendCL_INCLUDE_DIRS "${flashacl_INCLUDE_DIRS}")
set(AscendCL_LIBRARIES "${flashacl_LIBRARIES}")
if(NOT TARGET AscendCL::AscendCL)
  add_library(AscendCL::AscendCL INTERFACE IMPORTED)
  target_link_libraries(AscendCL::AscendCL INTERFACE ${flashacl_LIBRARIES})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(AscendCL
  REQUIRED_VARS AscendCL_LIBRARIES AscendCL_INCLUDE_DIRS)

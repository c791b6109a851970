# SPDX-License-Identifier: Apache-2.0
# What we build on: Debian 12's packages, nothing downloaded. scripts/setup.sh
# installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
# Only the vector code needs Highway. Ubuntu 22.04's is too old, and some systems
# have none.
set(FLASHACL_HIGHWAY "" CACHE PATH
    "Sources of Highway, 1.0.3 or newer, to build instead of the system's")
if(FLASHACL_HIGHWAY)
  set(HWY_ENABLE_TESTS OFF CACHE BOOL "" FORCE)
  set(HWY_ENABLE_EXAMPLES OFF CACHE BOOL "" FORCE)
  set(HWY_ENABLE_CONTRIB OFF CACHE BOOL "" FORCE)
  set(HWY_ENABLE_INSTALL OFF CACHE BOOL "" FORCE)
  add_subdirectory("${FLASHACL_HIGHWAY}" highway EXCLUDE_FROM_ALL)
  if(NOT TARGET hwy::hwy)
    add_library(hwy::hwy ALIAS hwy)
  endif()
else()
  find_package(hwy 1.0.3 QUIET)
  if(NOT hwy_FOUND)
    message(FATAL_ERROR
      "Highway 1.0.3 or newer is needed and was not found (libhwy-dev of Debian "
      "12, Ubuntu 24.04 and newer). Older systems: scripts/highway.sh FOLDER "
      "fetches its sources; say -DFLASHACL_HIGHWAY=FOLDER.")
  endif()
endif()

# How what runs anywhere is linked: libraries are inside, hidden from programs;
# glibc may be older than ours (docs/notes/0043). What nobody calls goes, as it
# may need a newer one: std::random_device does.
add_library(flashacl_older_glibc OBJECT EXCLUDE_FROM_ALL
            "${PROJECT_SOURCE_DIR}/src/portable/older_glibc.cc")
target_link_libraries(flashacl_older_glibc PRIVATE flashacl_options)
add_library(flashacl_packed INTERFACE)
target_sources(flashacl_packed INTERFACE $<TARGET_OBJECTS:flashacl_older_glibc>)
target_link_options(flashacl_packed INTERFACE -static-libstdc++ -static-libgcc
  "LINKER:--exclude-libs,ALL" "LINKER:--gc-sections")
add_library(flashacl_portable INTERFACE)
if(FLASHACL_PORTABLE)
  target_link_libraries(flashacl_portable INTERFACE flashacl_packed)
  if(NOT FLASHACL_HIGHWAY)
    message(FATAL_ERROR "FLASHACL_PORTABLE needs FLASHACL_HIGHWAY: systems have "
                        "only the shared library")
  endif()
endif()

# SPDX-License-Identifier: Apache-2.0
# What we build on: Debian 12's packages, nothing downloaded. scripts/setup.sh
# installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
# Only the vector code needs Highway.
file(GLOB_RECURSE vector_sources "${PROJECT_SOURCE_DIR}/src/cpu/*-inl.h")
if(vector_sources)
  find_package(hwy 1.0.3 REQUIRED)
endif()

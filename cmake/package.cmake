# SPDX-License-Identifier: Apache-2.0
# What `make package` packs: the installed prefix as one archive that can be
# unpacked anywhere, and as a .deb in /opt/flashacl.
set(CPACK_GENERATOR "TZST;DEB")
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_PACKAGE_FILE_NAME "flashacl-${PROJECT_VERSION}-${system}")
set(CPACK_PACKAGE_NAME flashacl)
set(CPACK_PACKAGE_VENDOR FlashACL)
set(CPACK_PACKAGE_CONTACT "The FlashACL authors <flashacl@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
# Where CPack does not ask, it takes the architecture of the machine.
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# Everything else is inside.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34)")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3")
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/package_each.cmake")
include(CPack)
